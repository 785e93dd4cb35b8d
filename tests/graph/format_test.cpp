#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

TEST(Formats, TurnsTransposedFactorsIntoFlags) {
  EXPECT_EQ(shown_after("format", R"(
    %a = input {shape=[4, 3]}
    %b = input {index=1, shape=[5, 4]}
    %k = input {index=2, shape=[5, 3]}
    %at = transpose(%a)
    %bt = transpose(%b) {order=[1, 0]}
    %c = matmul(%at, %bt)
    %d = matmul(%at, %k) {trans_a=true, trans_b=true}
    %y = tanh(%c)
    %e = matmul_act(%at, %bt, %y) {activation="tanh"}
    return %c, %d, %e)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = matmul(%0, %1) {trans_a=true, trans_b=true}
%4 = matmul(%0, %2) {trans_b=true}
%5 = tanh(%3)
%6 = matmul_act(%0, %1, %5) {trans_a=true, trans_b=true, activation="tanh"}
return %3, %4, %6
)");
}

TEST(Formats, TurnsOnlyTransposesOfTheLastTwoDimensions) {
  EXPECT_EQ(shown_after("format", R"(
    %a = input {shape=[2, 4, 3]}
    %b = input {index=1, shape=[4, 2, 5]}
    %at = transpose(%a) {order=[0, 2, 1]}
    %bt = transpose(%b) {order=[1, 0, 2]}
    %c = matmul(%at, %bt)
    return %c)"),
            R"(
%0 = input 0
%1 = input 1
%2 = transpose(%1) {order=[1, 0, 2]}
%3 = matmul(%0, %2) {trans_a=true}
return %3
)");
}

TEST(Formats, KeepsATransposeThatOthersReadToo) {
  EXPECT_EQ(shown_after("format", R"(
    %a = input {shape=[4, 3]}
    %at = transpose(%a)
    %c = matmul(%at, %a)
    return %c, %at)"),
            R"(
%0 = input 0
%1 = transpose(%0)
%2 = matmul(%0, %0) {trans_a=true}
return %2, %1
)");
}

TEST(Formats, MultipliesInTheOtherOrderWhenOnlyTheTransposeIsWanted) {
  const std::string product = R"(
    %a = input {shape=[4, 3]}
    %b = input {index=1, shape=[4, 5]}
    %c = matmul(%a, %b) {trans_a=true}
    %t = transpose(%c)
    return %t)";
  EXPECT_EQ(shown_after("format", product), R"(
%0 = input 0
%1 = input 1
%2 = matmul(%1, %0) {trans_a=true}
return %2
)");
  EXPECT_EQ(shown_after("format", product + ", %c"), R"(
%0 = input 0
%1 = input 1
%2 = matmul(%0, %1) {trans_a=true}
%3 = transpose(%2)
return %3, %2
)");
}

TEST(Formats, CancelsAndJoinsTransposes) {
  EXPECT_EQ(shown_after("format", R"(
    %a = input {shape=[2, 3, 4]}
    %b = transpose(%a) {order=[1, 2, 0]}
    %c = transpose(%b) {order=[2, 0, 1]}
    %d = transpose(%b)
    return %c, %d)"),
            R"(
%0 = input 0
%1 = transpose(%0) {order=[0, 2, 1]}
return %0, %1
)");
}

TEST(Formats, JoinsReshapesAndDropsThoseThatReturn) {
  EXPECT_EQ(shown_after("format", R"(
    %a = input {shape=[2, 3, 4]}
    %b = reshape(%a) {shape=[6, 4]}
    %c = reshape(%b) {shape=[24]}
    %d = reshape(%c) {shape=[2, 3, 4]}
    return %c, %d)"),
            R"(
%0 = input 0
%1 = reshape(%0) {shape=[24]}
return %1, %0
)");
}

TEST(Formats, DropsOpsThatChangeNothing) {
  EXPECT_EQ(shown_after("format", R"(
    variable 0 "w" f32[2]
    %a = input {shape=[2]}
    %b = identity(%a)
    %c = cast(%b) {dtype=f32}
    %d = reshape(%c) {shape=[2]}
    %e = broadcast_to(%d) {shape=[2]}
    %f = transpose(%e)
    %g = cast(%f) {dtype=f64}
    assign(%f)
    return %g)"),
            R"(
%0 = input 0
%1 = cast(%0) {dtype=f64}
assign 0(%0)
return %1
)");
}

TEST(Formats, KeepsCopiesBetweenDevices) {
  const std::string body = "%a = input {shape=[2]}\n%b = identity(%a) device=cuda:0\nreturn %b";
  expect_unchanged_by("format", body);
}

}  // namespace
}  // namespace starling::graph
