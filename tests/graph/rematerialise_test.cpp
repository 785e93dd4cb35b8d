#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

Graph bounded(const std::string& body, std::size_t bytes) {
  PassContext context;
  context.program.memory_budget = bytes;
  Graph made = run_pass("rematerialise", graph_of(body), context);
  verify(made, "rematerialise");
  return made;
}

// y is read at once and at the end; in between %b and %c are large.
const std::string kLong = R"(
    %x = input {shape=[64, 64]}
    %y = exp(%x)
    %s = sum(%y)
    %a = matmul(%x, %x)
    %b = matmul(%a, %x)
    %t = sum(%b)
    %z = matmul(%y, %x)
    %u = sum(%z)
    return %s, %t, %u)";

TEST(Rematerialise, ValuesKeptForLongAreComputedAgain) {
  EXPECT_EQ("\n" + print_short(bounded(kLong, 40000)), R"(
%0 = input 0
%1 = exp(%0)
%2 = sum(%1)
%3 = matmul(%0, %0)
%4 = matmul(%3, %0)
%5 = sum(%4)
%6 = exp(%0)
%7 = matmul(%6, %0)
%8 = sum(%7)
return %2, %5, %8
)");
}

TEST(Rematerialise, WithoutABudgetOrWithinItNothingChanges) {
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1} << 20})
    EXPECT_EQ(print_short(bounded(kLong, bytes)), print_short(graph_of(kLong)));
}

TEST(Rematerialise, OperandsThatNobodyKeptAreComputedAgainToo) {
  EXPECT_EQ("\n" + print_short(bounded(R"(
    %x = input {shape=[64, 64]}
    %e = exp(%x)
    %y = softmax(%e)
    %s = sum(%y)
    %a = matmul(%x, %x)
    %b = matmul(%a, %x)
    %t = sum(%b)
    %z = matmul(%y, %x)
    %u = sum(%z)
    return %s, %t, %u)",
                                       40000)),
            R"(
%0 = input 0
%1 = exp(%0)
%2 = softmax(%1)
%3 = sum(%2)
%4 = matmul(%0, %0)
%5 = matmul(%4, %0)
%6 = sum(%5)
%7 = exp(%0)
%8 = softmax(%7)
%9 = matmul(%8, %0)
%10 = sum(%9)
return %3, %6, %10
)");
}

TEST(Rematerialise, ReadersOfAnOverwrittenVariableAreKept) {
  const std::string text = R"(
    variable 0 "w" f32[64, 64]
    %x = input {shape=[64, 64]}
    %w = variable {shape=[64, 64]}
    %y = matmul(%w, %x)
    %s = sum(%y)
    assign(%x)
    %a = matmul(%x, %x)
    %b = matmul(%a, %x)
    %t = sum(%b)
    %z = matmul(%y, %x)
    %u = sum(%z)
    return %s, %t, %u)";
  EXPECT_EQ(print_short(bounded(text, 40000)), print_short(graph_of(text)));
}

}  // namespace
}  // namespace starling::graph
