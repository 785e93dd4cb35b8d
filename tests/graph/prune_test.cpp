#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

TEST(Prune, DropsWhatNoOutputOrEffectNeeds) {
  EXPECT_EQ(shown_after("prune", R"(
    variable 0 "w" f32[2]
    variable 1 "unread" f32[2]
    constant 0 f32[2] {1, 2}
    %x = input {shape=[2]}
    %spare = input {index=1, shape=[3]}
    %w = variable {shape=[2]}
    %unread = variable {index=1, shape=[2]}
    %c = constant {shape=[2]}
    %dead = relu(%x)
    %deader = add(%dead, %c)
    %unused_sum = all_reduce(%dead)
    %y = tanh(%x)
    %new = add(%w, %x)
    assign(%new)
    return %y)"),
            R"(
%0 = input 0
%1 = input 1
%2 = variable 0
%3 = tanh(%0)
%4 = add(%2, %0)
assign 0(%4)
return %3
)");
}

TEST(Prune, KeepsWhatControlEdgesOfNeededNodesNameAndTheInputsInOrder) {
  const Graph graph = after("prune", graph_of(R"(
    %a = input {index=1, shape=[2]}
    %b = input {shape=[2]}
    %first = relu(%a)
    %dead = exp(%a)
    %y = tanh(%b) origin=%dead after=(%first)
    return %y)"));
  EXPECT_EQ(print_short(graph), "%0 = input 1\n%1 = input 0\n%2 = relu(%0)\n%3 = tanh(%1) after=(%2)\nreturn %3\n");
  EXPECT_EQ(graph.inputs, (std::vector<ValueId>{1, 0}));
  EXPECT_EQ(graph.node(3).origin, -1);
}

}  // namespace
}  // namespace starling::graph
