#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

const std::string kHead = R"(
    %x = input {shape=[4, 3]}
    %labels = input {index=1, shape=[4], dtype=i64}
    %g = input {index=2, shape=[4]}
    %l = log_softmax(%x)
)";

std::string shown(const std::string& body) {
  const std::string text = print_short(after("cross_entropy", graph_of(kHead + body)));
  return "\n" + text.substr(text.find("%2 = input 2\n") + 13);
}
void expect_kept(const std::string& body) {
  EXPECT_EQ(shown(body).find("cross_entropy"), std::string::npos) << shown(body);
}

TEST(CrossEntropy, ReplacesOneHotSumsAndTheirGradient) {
  EXPECT_EQ(shown(R"(
    %h = one_hot(%labels) {classes=3, dtype=f32}
    %p = mul(%l, %h)
    %s = sum(%p)
    %minus = full {shape=[4, 3], value=-0.25}
    %d = mul(%minus, %h)
    %dx = log_softmax_backward(%d, %l)
    return %s, %dx)"),
            R"(
%3, %4, %5 = cross_entropy_sum(%0, %1)
%6 = neg(%5)
%7 = reshape(%6) {shape=[4, 1]}
%8 = sum(%7)
%9 = full {value=0.25}
%10 = cross_entropy_backward(%0, %1, %4, %9)
return %8, %10
)");
}

TEST(CrossEntropy, ReplacesGathersAndTheirGradient) {
  EXPECT_EQ(shown(R"(
    %i = unsqueeze(%labels) {axes=[1]}
    %p = gather(%l, %i) {axis=1}
    %zero = full {shape=[4, 3]}
    %c = reshape(%g) {shape=[4, 1]}
    %d = scatter_add(%zero, %i, %c) {axis=1}
    %dx = log_softmax_backward(%d, %l)
    return %p, %dx)"),
            R"(
%3, %4, %5 = cross_entropy_sum(%0, %1)
%6 = neg(%5)
%7 = reshape(%6) {shape=[4, 1]}
%8 = reshape(%2) {shape=[4, 1]}
%9 = reshape(%8) {shape=[4]}
%10 = neg(%9)
%11 = full {value=1}
%12 = cross_entropy_weighted_backward(%0, %1, %10, %4, %11)
return %7, %12
)");
}

TEST(CrossEntropy, ReplacesTheLikelihoodOfLabelsOfWhichSomeAreIgnored) {
  EXPECT_EQ(shown(R"(
    %s, %w = nll(%l, %labels)
    %d = label_place(%g, %labels) {classes=3}
    %dx = log_softmax_backward(%d, %l)
    return %s, %w, %dx)"),
            R"(
%3 = full {value=-100, dtype=i64}
%4 = equal(%1, %3)
%5 = full {dtype=i64}
%6 = where(%4, %5, %1)
%7 = logical_not(%4)
%8 = cast(%7)
%9, %10, %11 = cross_entropy_weighted(%0, %6, %8)
%12 = sum(%8)
%13 = neg(%2)
%14 = full
%15 = where(%4, %14, %13)
%16 = full {value=1}
%17 = cross_entropy_weighted_backward(%0, %6, %15, %10, %16)
return %9, %12, %17
)");
}

TEST(CrossEntropy, SeesThroughReshapes) {
  EXPECT_EQ(shown(R"(
    %deep = reshape(%x) {shape=[2, 2, 3]}
    %m = log_softmax(%deep)
    %f = reshape(%m) {shape=[4, 3]}
    %p = label_pick(%f, %labels)
    return %p)"),
            R"(
%3 = reshape(%0) {shape=[2, 2, 3]}
%4 = reshape(%3) {shape=[4, 3]}
%5 = full {value=-100, dtype=i64}
%6 = equal(%1, %5)
%7 = full {dtype=i64}
%8 = where(%6, %7, %1)
%9, %10, %11 = cross_entropy_sum(%4, %8)
%12 = neg(%11)
%13 = full
%14 = where(%6, %13, %12)
return %14
)");
}

TEST(CrossEntropy, KeepsLogProbabilitiesThatAreReadOtherwise) {
  expect_kept("%p = label_pick(%l, %labels)\nreturn %p, %l");
  expect_kept("%p = label_pick(%l, %labels)\n%e = exp(%l)\nreturn %p, %e");
  expect_kept("%s = sum(%l)\nreturn %s, %labels");
  expect_kept(
      "%other = input {index=3, shape=[4], dtype=i64}\n%p = label_pick(%l, %labels)\n%q = label_pick(%l, "
      "%other)\nreturn %p, %q");
  expect_kept("%p = label_pick(%l, %labels)\n%q = label_pick(%l, %labels) {ignore_index=1}\nreturn %p, %q");
  // Not cross entropy: soft labels, or a sum over rows, which leaves the classes.
  expect_kept("%soft = input {index=3, shape=[4, 3]}\n%p = mul(%l, %soft)\n%s = sum(%p)\nreturn %s");
  expect_kept("%h = one_hot(%labels) {classes=3, dtype=f32}\n%p = mul(%l, %h)\n%s = sum(%p) {axes=[0]}\nreturn %s");
  // A gradient per class differs from a gradient at the label.
  expect_kept("%p = label_pick(%l, %labels)\n%dx = log_softmax_backward(%x, %l)\nreturn %p, %dx");
}

}  // namespace
}  // namespace starling::graph
