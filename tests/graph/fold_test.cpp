#include <cmath>

#include "graph/passes_testing.h"
#include "starling/ops/api/creation.h"

namespace starling::graph {
namespace {

TEST(Fold, ComputesWhatDependsOnConstantsOnly) {
  const Graph graph = after("fold", graph_of(R"(
    constant 0 f32[3] {1, 2, 3}
    constant 1 f32[3] {10, 20, 30}
    %x = input {shape=[3]}
    %a = constant {shape=[3]}
    %b = constant {index=1, shape=[3]}
    %s = add(%a, %b)
    %t = neg(%s)
    %y = mul(%x, %t)
    return %y)"));
  EXPECT_EQ(print_short(graph), "%0 = input 0\n%1 = constant 0\n%2 = mul(%0, %1)\nreturn %2\n");
  EXPECT_EQ(graph.constants[0].to_vector(), (std::vector<double>{-11, -22, -33}));
}

TEST(Fold, MakesDenseConstantsOfViews) {
  const Graph graph = after("fold", graph_of(R"(
    constant 0 f32[2] {1, 2}
    %a = constant {shape=[2]}
    %b = broadcast_to(%a) {shape=[2, 2]}
    %t = transpose(%b)
    return %b, %t)"));
  ASSERT_EQ(graph.constants.size(), 2u);
  for (const auto& constant : graph.constants) EXPECT_TRUE(constant.contiguous());
  const auto value = [&](std::size_t i) {
    return graph.constants[static_cast<std::size_t>(source_index(graph.maker(graph.outputs[i])))].to_vector();
  };
  EXPECT_EQ(value(0), (std::vector<double>{1, 2, 1, 2}));
  EXPECT_EQ(value(1), (std::vector<double>{1, 1, 2, 2}));
}

TEST(Fold, DropsUnusedConstants) {
  const Graph graph = after("fold", graph_of(R"(
    constant 0 f32[3] {1, 2, 3}
    constant 1 f32[2] {5, 6}
    %a = constant {shape=[3]}
    %b = constant {index=1, shape=[2]}
    %s = sum(%a)
    return %s, %b)"));
  EXPECT_EQ(print_short(graph), "%0 = constant 0\n%1 = full {value=6}\nreturn %1, %0\n");
  ASSERT_EQ(graph.constants.size(), 1u);
  EXPECT_EQ(graph.constants[0].to_vector(), (std::vector<double>{5, 6}));
}

TEST(Fold, AConstantOfOneRepeatedNumberBecomesFull) {
  EXPECT_EQ(shown_after("fold", R"(
    %x = input {shape=[4000, 4000]}
    %ones = full {shape=[4000, 4000], value=1}
    %half = full {value=0.5}
    %c = mul(%ones, %half)
    %e = sub(%c, %ones)
    %r = reshape(%e) {shape=[16000000]}
    %d = cast(%r) {dtype=f64}
    %y = mul(%x, %e)
    return %y, %d)"),
            R"(
%0 = input 0
%1 = full {shape=[4000, 4000], value=-0.5}
%2 = full {shape=[16000000], value=-0.5, dtype=f64}
%3 = mul(%0, %1)
return %3, %2
)");
}

TEST(Fold, CreatesOnceWhatIsCreatedFromNumbers) {
  const Graph graph = after("fold", graph_of(R"(
    %a = arange {end=4}
    %e = eye {rows=2, cols=2}
    %f = cast(%a) {dtype=f32}
    return %f, %e)"));
  EXPECT_EQ(print_short(graph), "%0 = constant 0\n%1 = constant 1\nreturn %1, %0\n");
  EXPECT_EQ(graph.constants[1].to_vector(), (std::vector<double>{0, 1, 2, 3}));
}

TEST(Fold, MakesNoConstantLargerThanAMegabyteUnlessItsOperandsWereLarger) {
  const std::string head = "constant 0 f32[600] {" + [] {
    std::string list = "0";
    for (int i = 1; i < 600; ++i) list += ", " + std::to_string(i % 7);
    return list;
  }() + "}\n%a = constant {shape=[600]}\n";
  const std::string column = "%c = reshape(%a) {shape=[600, 1]}\n";
  // 600 × 600 × 4 bytes are 1.4 MB, 400 × 600 × 4 less than 1 MB.
  EXPECT_EQ(after("fold", graph_of(head + column + "%y = add(%a, %c)\nreturn %y")).size(), 3);
  EXPECT_EQ(after("fold", graph_of(head + column + "%d = slice(%c) {end=400}\n%y = add(%a, %d)\nreturn %y")).size(), 1);
  expect_unchanged_by("fold", "%big = full {shape=[1000000], value=2}\n%y = softmax(%big)\nreturn %y");
}

TEST(Fold, LeavesWhatIsRandomStatefulOrOrderedAlone) {
  expect_unchanged_by("fold", R"(
    constant 0 i64[2] {1, 2}
    constant 1 f32[2] {1, 2}
    variable 0 "w" f32[2]
    %key = constant {shape=[2], dtype=i64}
    %c = constant {index=1, shape=[2]}
    %w = variable {shape=[2]}
    %u = uniform(%key) {shape=[2]}
    %r = all_reduce(%c)
    %t = tanh(%c) after=(%u)
    %s = add(%w, %c)
    assign(%c)
    return %u, %r, %t, %s)");
}

TEST(Fold, LeavesAnErrorToTheRun) {
  expect_unchanged_by("fold", R"(
    %a = full {shape=[2], value=3, dtype=i64}
    %b = full {shape=[2], dtype=i64}
    %c = div(%a, %b)
    return %c)");
}

TEST(Fold, KeepsNumbersThatFullCannotSayAsConstants) {
  const Graph graph = after("fold", graph_of(R"(
    %zero = full
    %minus = neg(%zero)
    %nan = div(%zero, %zero)
    return %minus, %nan)"));
  ASSERT_EQ(graph.constants.size(), 2u);
  EXPECT_TRUE(std::signbit(graph.constants[0].item()));
  EXPECT_TRUE(std::isnan(graph.constants[1].item()));
}

}  // namespace
}  // namespace starling::graph
