#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

TEST(Cse, MergesEqualNodesAndWhatFollowsFromThem) {
  EXPECT_EQ(shown_after("cse", R"(
    %x = input {shape=[2, 3]}
    %a = tanh(%x)
    %b = tanh(%x)
    %c = sum(%a) {axes=[0]}
    %d = sum(%b) {axes=[0]}
    %e = sum(%b) {axes=[1]}
    return %c, %d, %e)"),
            R"(
%0 = input 0
%1 = tanh(%0)
%2 = sum(%1) {axes=[0]}
%3 = sum(%1) {axes=[1]}
return %2, %2, %3
)");
}

TEST(Cse, SeesThroughTheOrderOfCommutativeOperandsOnly) {
  EXPECT_EQ(shown_after("cse", R"(
    %a = input {shape=[2]}
    %b = input {index=1, shape=[2]}
    %c = add(%a, %b)
    %d = add(%b, %a)
    %e = sub(%a, %b)
    %f = sub(%b, %a)
    return %c, %d, %e, %f)"),
            R"(
%0 = input 0
%1 = input 1
%2 = add(%0, %1)
%3 = sub(%0, %1)
%4 = sub(%1, %0)
return %2, %2, %3, %4
)");
}

TEST(Cse, MergesReadsOfAVariableUpToItsAssign) {
  EXPECT_EQ(shown_after("cse", R"(
    variable 0 "w" f32[2]
    variable 1 "v" f32[2]
    constant 0 f32[2] {1, 2}
    %a = variable {shape=[2]}
    %b = variable {shape=[2]}
    %v = variable {index=1, shape=[2]}
    %c = constant {shape=[2]}
    %k = constant {shape=[2]}
    assign(%c)
    %d = variable {shape=[2]}
    %u = variable {index=1, shape=[2]}
    return %a, %b, %c, %k, %d, %v, %u)"),
            R"(
%0 = variable 0
%1 = variable 1
%2 = constant 0
assign 0(%2)
%3 = variable 0
return %0, %0, %2, %2, %3, %1, %1
)");
}

TEST(Cse, LeavesRandomCommAndStatefulNodesAlone) {
  const std::string body = R"(
    variable 0 "w" f32[2]
    %key = input {shape=[2], dtype=i64}
    %x = input {index=1, shape=[2]}
    %a = uniform(%key) {shape=[2]}
    %b = uniform(%key) {shape=[2]}
    %c = all_reduce(%x)
    %d = all_reduce(%x)
    assign(%x)
    assign(%x)
    return %a, %b, %c, %d)";
  expect_unchanged_by("cse", body);
}

TEST(Cse, KeepsNodesOfOtherDevicesLanesOrWithControlEdgesApart) {
  const std::string body = R"(
    %x = input {shape=[2]}
    %a = tanh(%x)
    %b = tanh(%x) device=cpu:1
    %c = tanh(%x) lane=comm
    %d = tanh(%x) after=(%b)
    return %a, %b, %c, %d)";
  expect_unchanged_by("cse", body);
}

TEST(Cse, TellsAttributesApartToTheSignOfAZero) {
  expect_unchanged_by("cse", R"(
    %x = input {shape=[2, 3]}
    %a = sum(%x) {axes=[0]}
    %b = sum(%x) {axes=[1]}
    %c = sum(%x) {axes=[0], keepdim=true}
    %d = clamp(%x) {min=0}
    %e = clamp(%x) {min=-0}
    return %a, %b, %c, %d, %e)");
}

TEST(Cse, MergesAllResultsOfANode) {
  EXPECT_EQ(shown_after("cse", R"(
    %x = input {shape=[4, 3]}
    %y, %m, %v = batch_norm_train(%x)
    %y2, %m2, %v2 = batch_norm_train(%x)
    return %y, %m2, %v2, %y2)"),
            R"(
%0 = input 0
%1, %2, %3 = batch_norm_train(%0)
return %1, %2, %3, %1
)");
}

TEST(Cse, MergesConstantsWithTheSameContents) {
  EXPECT_EQ(shown_after("cse", R"(
    constant 0 f32[2] {1, 2}
    constant 1 f32[2] {1, 3}
    constant 2 f32[2] {1, 2}
    constant 3 f64[2] {1, 2}
    %a = constant {shape=[2]}
    %b = constant {index=1, shape=[2]}
    %c = constant {index=2, shape=[2]}
    %d = constant {index=3, shape=[2], dtype=f64}
    return %a, %b, %c, %d)"),
            R"(
%0 = constant 0
%1 = constant 1
%2 = constant 3
return %0, %1, %0, %2
)");
}

TEST(Cse, KnowsEveryCommutativeOp) {
  for (const char* op : {"add", "mul", "maximum", "minimum", "equal", "not_equal"}) {
    const std::string body = std::string("%a = input {shape=[2]}\n%b = input {index=1, shape=[2]}\n%c = ") + op +
                             "(%a, %b)\n%d = " + op + "(%b, %a)\nreturn %c, %d";
    EXPECT_EQ(after("cse", graph_of(body)).size(), 3) << op;
  }
  for (const char* op : {"sub", "div", "pow", "less", "greater"}) {
    const std::string body = std::string("%a = input {shape=[2]}\n%b = input {index=1, shape=[2]}\n%c = ") + op +
                             "(%a, %b)\n%d = " + op + "(%b, %a)\nreturn %c, %d";
    EXPECT_EQ(after("cse", graph_of(body)).size(), 4) << op;
  }
}

}  // namespace
}  // namespace starling::graph
