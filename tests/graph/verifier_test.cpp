#include "starling/graph/verifier.h"

#include "graph/passes_testing.h"
#include "starling/base/error.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {
namespace {

// Nodes: 0 input, 1 variable, 2 constant, 3 add, 4 relu, 5 assign.
Graph valid() {
  return graph_of(R"(
    variable 0 "w" f32[2]
    constant 0 f32[2] {1, 2}
    %0 = input {shape=[2]}
    %1 = variable {shape=[2]}
    %2 = constant {shape=[2]}
    %3 = add(%0, %1)
    %4 = relu(%3)
    assign(%4)
    return %3)");
}

std::string error_of(const Graph& graph) {
  try {
    verify(graph, "fuse");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Verifier, AcceptsAGraphThatObeysTheRules) { EXPECT_EQ(error_of(valid()), "no error"); }

TEST(Verifier, RefusesOperandsThatDoNotExist) {
  Graph graph = valid();
  graph.node(4).in[0] = 99;
  EXPECT_EQ(error_of(graph), "[verify] after fuse: node 4 (relu): expected operands that exist, got %99");
}

TEST(Verifier, RefusesOperandsReadBeforeTheyAreMade) {
  Graph graph = valid();
  graph.node(3).in[0] = 4;
  EXPECT_EQ(error_of(graph),
            "[verify] after fuse: node 3 (add): expected operands made before they are read, got %4 of node 4");
}

TEST(Verifier, RefusesTypesThatInferenceDoesNotGive) {
  Graph graph = valid();
  graph.value(4).type.shape = {3};
  EXPECT_EQ(error_of(graph), "[verify] after fuse: node 4 (relu): expected %4 of f32[2] as inferred, got f32[3]");
}

TEST(Verifier, RefusesOperandsThatDoNotInfer) {
  Graph graph = valid();
  graph.node(3).in.push_back(0);
  EXPECT_NE(error_of(graph).find("node 3 (add): expected operands that infer, got: [add]"), std::string::npos)
      << error_of(graph);
}

TEST(Verifier, RefusesTheAttributesOfAnotherOp) {
  Graph graph = valid();
  graph.node(4).attrs = op::AssignAttrs{};
  EXPECT_NE(error_of(graph).find("node 4 (relu): expected the attributes of its op"), std::string::npos);
}

TEST(Verifier, RefusesSourcesThatNameNothing) {
  Graph graph = valid();
  graph.node(1).attrs = op::SourceAttrs{3, {2}, DType::f32};
  EXPECT_EQ(error_of(graph), "[verify] after fuse: node 1 (variable): expected the index of one of 1 variables, got 3");
  graph = valid();
  graph.node(2).attrs = op::SourceAttrs{-1, {2}, DType::f32};
  EXPECT_EQ(error_of(graph),
            "[verify] after fuse: node 2 (constant): expected the index of one of 1 constants, got -1");
  graph = valid();
  graph.node(0).attrs = op::SourceAttrs{1, {2}, DType::f32};
  EXPECT_EQ(error_of(graph), "[verify] after fuse: node 0 (input): expected the index of one of 1 inputs, got 1");
}

TEST(Verifier, RefusesSourcesOfAnotherTypeThanWhatTheyName) {
  Graph graph = valid();
  graph.variables[0].type.dtype = DType::f64;
  EXPECT_EQ(error_of(graph),
            "[verify] after fuse: node 1 (variable): expected f64[2] as variable 0 (w) is, got f32[2]");
  graph = valid();
  graph.constants[0] = zeros({3});
  EXPECT_EQ(error_of(graph), "[verify] after fuse: node 2 (constant): expected f32[3] as constant 0 is, got f32[2]");
}

TEST(Verifier, RefusesAssignsOfWhatDoesNotExistOrFit) {
  Graph graph = valid();
  graph.node(5).attrs = op::AssignAttrs{1};
  EXPECT_EQ(error_of(graph), "[verify] after fuse: node 5 (assign): expected to assign one of 1 variables, got 1");
  graph = valid();
  graph.add_variable({"b", {DType::f32, {7}}, {}});
  graph.node(5).attrs = op::AssignAttrs{1};
  EXPECT_EQ(error_of(graph),
            "[verify] after fuse: node 5 (assign): expected a value of f32[7] for variable 1 (b), got f32[2]");
}

TEST(Verifier, RefusesControlEdgesThatPointForward) {
  Graph graph = valid();
  graph.node(3).after.push_back(3);
  EXPECT_EQ(error_of(graph),
            "[verify] after fuse: node 3 (add): expected control edges that point backward, got one to node 3");
}

TEST(Verifier, RefusesOriginsThatDoNotExist) {
  Graph graph = valid();
  graph.node(3).origin = 6;
  EXPECT_EQ(error_of(graph), "[verify] after fuse: node 3 (add): expected an origin that exists, got node 6");
}

TEST(Verifier, RefusesValuesWithTwoMakers) {
  Graph graph = valid();
  graph.node(4).out[0] = 3;
  EXPECT_EQ(error_of(graph),
            "[verify] after fuse: node 4 (relu): expected to be the only maker of %3, got node 3 output 0 too");
}

TEST(Verifier, RefusesNodesWithMissingResults) {
  Graph graph = valid();
  graph.node(4).out.clear();
  EXPECT_EQ(error_of(graph), "[verify] after fuse: node 4 (relu): expected 1 results as inferred, got 0");
}

TEST(Verifier, RefusesVariadicOpsWithoutOperands) {
  Graph graph = valid();
  graph.node(graph.add(find_op("concat"), std::vector<ValueId>{0}, Attrs::defaults(*find_op("concat").attrs)))
      .in.clear();
  EXPECT_EQ(error_of(graph), "[verify] after fuse: node 6 (concat): expected at least one operand, got none");
}

TEST(Verifier, RefusesInputsAndOutputsOfTheGraphThatDoNotExist) {
  Graph graph = valid();
  graph.outputs.push_back(-1);
  EXPECT_EQ(error_of(graph), "[verify] after fuse: expected outputs that exist, got %-1");
  graph = valid();
  graph.inputs.push_back(1);
  EXPECT_EQ(error_of(graph), "[verify] after fuse: expected graph input 1 to be made by its input node, got %1");
  graph = valid();
  graph.inputs[0] = 1;
  EXPECT_EQ(error_of(graph), "[verify] after fuse: node 0 (input): expected to be input 0 of the graph, got %1 there");
}

}  // namespace
}  // namespace starling::graph
