#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

const std::string kHead = R"(
    %x = input {shape=[2, 3, 8, 8]}
    %w = input {index=1, shape=[4, 3, 3, 3]}
    %m = input {index=2, shape=[4]}
    %v = input {index=3, shape=[4]}
    %g = input {index=4, shape=[4]}
    %b = input {index=5, shape=[4]}
)";

TEST(FoldBatchNorm, ScalesWeightsInsteadOfImages) {
  EXPECT_EQ(shown_after("fold_batch_norm", kHead + R"(
    %c = conv2d(%x, %w) {padding=[1, 1]}
    %n = batch_norm_infer(%c, %m, %v, %g, %b) {eps=0.001}
    return %n)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = input 3
%4 = input 4
%5 = input 5
%6 = full {value=0.001}
%7 = add(%3, %6)
%8 = rsqrt(%7)
%9 = mul(%8, %4)
%10 = reshape(%9) {shape=[4, 1, 1, 1]}
%11 = mul(%1, %10)
%12 = neg(%2)
%13 = mul(%12, %9)
%14 = add(%13, %5)
%15 = conv2d(%0, %11, %14) {padding=[1, 1]}
return %15
)");
}

TEST(FoldBatchNorm, TakesTheBiasAlong) {
  EXPECT_EQ(shown_after("fold_batch_norm", kHead + R"(
    %c = conv2d(%x, %w, %b)
    %n = batch_norm_infer(%c, %m, %v)
    return %n)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = input 3
%4 = input 4
%5 = input 5
%6 = full {value=1e-05}
%7 = add(%3, %6)
%8 = rsqrt(%7)
%9 = reshape(%8) {shape=[4, 1, 1, 1]}
%10 = mul(%1, %9)
%11 = sub(%5, %2)
%12 = mul(%11, %8)
%13 = conv2d(%0, %10, %12)
return %13
)");
}

TEST(FoldBatchNorm, LeavesWhatIsReadAgainOrActivatedOrSmallerThanItsWeights) {
  expect_unchanged_by("fold_batch_norm",
                      kHead + "%c = conv2d(%x, %w)\n%n = batch_norm_infer(%c, %m, %v)\nreturn %n, %c");
  expect_unchanged_by("fold_batch_norm", kHead + R"(
    %c = conv2d(%x, %w) {activation="relu"}
    %n = batch_norm_infer(%c, %m, %v)
    return %n)");
  expect_unchanged_by("fold_batch_norm", kHead + R"(
    %one = input {index=6, shape=[1, 3, 3, 3]}
    %c = conv2d(%one, %w)
    %n = batch_norm_infer(%c, %m, %v)
    return %n)");
}

TEST(FoldBatchNorm, LeavesANormalisationThatAResidualJoins) {
  const std::string body = kHead + R"(
    %r = input {index=6, shape=[2, 4, 6, 6]}
    %c = conv2d(%x, %w)
    %n = batch_norm_infer(%c, %m, %v)
    %s = add(%n, %r)
    return %s)";
  expect_unchanged_by("fold_batch_norm", body);
}

// Under mixed precision on a GPU casts stand around the normalisation: weights are scaled before theirs.
std::string narrow_net(const std::string& device) {
  std::string body = kHead + R"(
    %x16 = cast(%x) {dtype=bf16}!
    %w16 = cast(%w) {dtype=bf16}!
    %c = conv2d(%x16, %w16)!
    %c32 = cast(%c) {dtype=f32}!
    %n = batch_norm_infer(%c32, %m, %v, %g, %b)!
    %n16 = cast(%n) {dtype=bf16}!
    %y = relu(%n16)!
    return %y)";
  for (std::size_t at; (at = body.find('!')) != std::string::npos;) body.replace(at, 1, device);
  return body;
}

TEST(FoldBatchNorm, GoesThroughTheCastsOfMixedPrecisionOnAGpu) {
  const Graph graph = after("fold_batch_norm", graph_of(narrow_net(" device=cuda:0")));
  const std::string shown = print_short(graph);
  EXPECT_EQ(shown.find("batch_norm_infer"), std::string::npos) << shown;
  EXPECT_NE(shown.find("%18 = conv2d(%6, %16, %17)"), std::string::npos) << shown;
  EXPECT_NE(shown.find("%19 = relu(%18)"), std::string::npos) << shown;
  expect_unchanged_by("fold_batch_norm", narrow_net(""));
}

}  // namespace
}  // namespace starling::graph
