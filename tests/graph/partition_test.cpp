#include <gtest/gtest.h>

#include "graph/passes_testing.h"
#include "starling/graph/parser.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/graph/printer.h"

namespace starling::graph {
namespace {

constexpr const char* kStep = R"(starling-graph 1
variable 0 "w" f32[3, 4]
%x = input {index=0, shape=[8, 4]}
%w = variable {index=0, shape=[3, 4]}
%y = linear(%x, %w)
%s = sum(%y)
%g = matmul(%y, %x) {trans_a=true}
return %s, %g, %y
)";

PassContext context(int world, int rank) { return {.world = world, .rank = rank, .inputs = {Layout::split(0)}}; }

TEST(Partition, APartialValueThatMustBeWholeIsReduced) {
  const Graph local = run_pass("partition", parse_graph(kStep), context(2, 0));
  EXPECT_EQ(print_short(local), R"(%0 = input 0
%1 = variable 0
%2 = linear(%0, %1)
%3 = sum(%2)
%4 = matmul(%2, %0) {trans_a=true}
%5 = all_reduce(%3) {name="sum%3"}
%6 = all_reduce(%4) {name="matmul%4"}
return %5, %6, %2
)");
  EXPECT_EQ(to_string(local.value(0).layouts[0]), "S0");
  EXPECT_EQ(to_string(local.value(3).layouts[0]), "P(sum)");
  EXPECT_EQ(to_string(local.value(4).layouts[0]), "P(sum)");
  EXPECT_EQ(local.value(0).type.shape, (Shape{4, 4}));
}

TEST(Partition, OneRankChangesNothing) {
  const Graph graph = parse_graph(kStep);
  EXPECT_EQ(print(run_pass("partition", graph, context(1, 0))), print(graph));
}

TEST(Partition, UnevenRowsAreSharedInRankOrder) {
  std::int64_t rows = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const Piece piece = rows_of(8, context(3, rank));
    EXPECT_EQ(piece.begin, rows);
    rows += piece.size;
    const Graph local = run_pass("partition", parse_graph(kStep), context(3, rank));
    EXPECT_EQ(local.value(local.inputs[0]).type.shape[0], piece.size);
  }
  EXPECT_EQ(rows, 8);
}

TEST(Partition, ASplitValueThatMustBeWholeIsGathered) {
  const Graph global = parse_graph(R"(starling-graph 1
%x = input {index=0, shape=[4, 2]}
%y = transpose(%x)
%t = softmax(%y)
%s = sum(%t)
return %s
)");
  const Graph local = run_pass("partition", global, context(2, 1));
  EXPECT_NE(print_short(local).find("all_gather(%2) {rows=4, rank=1, ranks=2"), std::string::npos)
      << print_short(local);
}

// Rows of samples and steps, as the weight gradient of a layer over sequences has them.
TEST(Partition, AReshapeOfRowsToOtherRowsIsKeptSplitWhereBothDivide) {
  const Graph global = parse_graph(R"(starling-graph 1
%x = input {index=0, shape=[4, 3, 2]}
%t = reshape(%x) {shape=[12, 2]}
%g = matmul(%t, %t) {trans_a=true}
%b = reshape(%t) {shape=[4, 3, 2]}
return %g, %b
)");
  EXPECT_EQ(print_short(run_pass("partition", global, context(2, 1))), R"(%0 = input 0
%1 = reshape(%0) {shape=[6, 2]}
%2 = matmul(%1, %1) {trans_a=true}
%3 = reshape(%1) {shape=[2, 3, 2]}
%4 = all_reduce(%2) {name="matmul%2"}
return %4, %3
)");
  EXPECT_NE(print_short(run_pass("partition", global, context(3, 1))).find("all_gather"), std::string::npos)
      << "12 rows divide by 3, 4 samples do not";
}

// The step of a weight and its velocity, of which every rank stores its rows.
Graph stored_in_pieces(bool weight) {
  Graph graph = parse_graph(R"(starling-graph 1
variable 0 "w" f32[3, 4]
variable 1 "v" f32[3, 4]
variable 2 "lr" f32[]
%x = input {index=0, shape=[8, 4]}
%w = variable {index=0, shape=[3, 4]}
%v = variable {index=1, shape=[3, 4]}
%lr = variable {index=2, shape=[]}
%y = linear(%x, %w)
%g = matmul(%y, %x) {trans_a=true}
%n = square(%g)
%s = sum(%n)
%a, %b = sgd_update(%w, %v, %g, %lr)
assign(%a) {index=0}
assign(%b) {index=1}
return %s
)");
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (!is_op(node, "variable") || source_index(node) == 2 || (source_index(node) == 0 && !weight)) continue;
    Layout pieces = Layout::split(0);
    pieces.gathered = true;
    graph.value(node.out[0]).layouts = {pieces};
  }
  return graph;
}

TEST(Partition, UpdatesAreMadeOnStoredPiecesAndGradientsScattered) {
  const Graph local = run_pass("partition", stored_in_pieces(false), context(2, 0));
  EXPECT_EQ(print_short(local), R"(%0 = input 0
%1 = variable 0
%2 = variable 1
%3 = variable 2
%4 = linear(%0, %1)
%5 = matmul(%4, %0) {trans_a=true}
%6 = reduce_scatter(%5) {rows=3, ranks=2, name="matmul%5"}
%7 = square(%6)
%8 = sum(%7)
%9 = slice(%1) {end=1}
%10, %11 = sgd_update(%9, %2, %6, %3)
%12 = all_gather(%10) {rows=3, ranks=2, name="sgd_update%8"}
assign 0(%12)
assign 1(%11)
%13 = all_reduce(%8) {name="sum%7"}
return %13
)");
  EXPECT_EQ(local.variables[0].type.shape, (Shape{3, 4}));
  EXPECT_EQ(local.variables[1].type.shape, (Shape{1, 4}));
}

TEST(Partition, AWeightStoredInPiecesIsGatheredForItsUseAndUpdatedAsItIs) {
  const Graph local = run_pass("partition", stored_in_pieces(true), context(2, 1));
  const std::string text = print_short(local);
  EXPECT_NE(text.find("%4 = all_gather(%1) {rows=3, rank=1, ranks=2"), std::string::npos) << text;
  EXPECT_NE(text.find("linear(%0, %4)"), std::string::npos) << text;
  EXPECT_NE(text.find("sgd_update(%1, %2, "), std::string::npos) << text;
  EXPECT_EQ(text.find("slice"), std::string::npos) << text;
  EXPECT_EQ(local.variables[0].type.shape, (Shape{2, 4}));
}

Graph along_model(const char* text, int parts, int rank) {
  return Partitioner(parse_graph(text),
                     {.parts = parts, .first = rank, .group = Symbol("model"), .whole_results = true}, {})
      .run();
}

// Columns of the first layer, rows of the second: one reduction, of the sum, to which the bias is added once.
TEST(Partition, LayersAreComputedOnPiecesOfTheirWeights) {
  const Graph local = along_model(R"(starling-graph 1
variable 0 "up" f32[6, 4]
variable 1 "down" f32[3, 6]
variable 2 "bias" f32[3]
%x = input {index=0, shape=[8, 4]}
%up = variable {index=0, shape=[6, 4]} : f32[6, 4]<S0>
%down = variable {index=1, shape=[3, 6]} : f32[3, 6]<S1>
%bias = variable {index=2, shape=[3]}
%h = linear(%x, %up) {activation="tanh"}
%y = linear(%h, %down, %bias) {activation="relu"}
return %y
)",
                                  2, 1);
  EXPECT_EQ(print_short(local), R"(%0 = input 0
%1 = variable 0
%2 = variable 1
%3 = variable 2
%4 = linear(%0, %1) {activation="tanh"}
%5 = full {value=0.5}
%6 = mul(%3, %5)
%7 = linear(%4, %2, %6)
%8 = all_reduce(%7) {name="linear%5", group="model"}
%9 = relu(%8)
return %9
)");
  EXPECT_EQ(local.variables[0].type.shape, (Shape{3, 4}));
  EXPECT_EQ(local.variables[1].type.shape, (Shape{3, 3}));
}

// Queries, keys and values lie in blocks of one weight: every rank has whole heads of each, and nothing is exchanged
// until the heads are joined. Control: without blocks their pieces are not heads.
TEST(Partition, HeadsOfAFusedWeightStayApart) {
  const auto text = [](const char* layout) {
    return std::string(R"(starling-graph 1
variable 0 "qkv" f32[24, 8]
%x = input {index=0, shape=[2, 5, 8]}
%w = variable {index=0, shape=[24, 8]} : f32[24, 8]<)") +
           layout + R"(>
%y = linear(%x, %w)
%q = split(%y) {axis=2, count=3, index=1}
%h = reshape(%q) {shape=[2, 5, 4, 2]}
%t = transpose(%h) {order=[0, 2, 1, 3]}
%s = softmax(%t)
return %s
)";
  };
  const auto gathers = [](const Graph& graph) {
    int count = 0;
    for (const Node& node : graph.nodes()) count += is_op(node, "all_gather");
    return count;
  };
  const Graph apart = along_model(text("S0*3").c_str(), 2, 0);
  EXPECT_EQ(gathers(apart), 1) << "of the result: " << print_short(apart);
  EXPECT_NE(print_short(apart).find("reshape(%3) {shape=[2, 5, 2, 2]}"), std::string::npos) << print_short(apart);
  const Graph mixed = along_model(text("S0").c_str(), 2, 0);
  EXPECT_EQ(print_short(mixed).find("shape=[2, 5, 2, 2]"), std::string::npos) << print_short(mixed);
}

TEST(Partition, RefusesCollectivesOfTheUser) {
  const Graph global = parse_graph(R"(starling-graph 1
%x = input {index=0, shape=[4, 2]}
%s = sum(%x)
%r = all_reduce(%s)
return %r
)");
  EXPECT_THROW(run_pass("partition", global, context(2, 0)), Error);
}

TEST(LogicalShards, SplitNodesStandOncePerOwnShardAndAreAddedInOrder) {
  PassContext deterministic = context(2, 0);
  deterministic.shards = 4;
  const Graph local = run_pass("logical_shards", parse_graph(kStep), deterministic);
  int linears = 0, sums = 0;
  for (const auto& node : local.nodes()) {
    linears += is_op(node, "linear");
    if (!is_op(node, "ordered_sum")) continue;
    ++sums;
    EXPECT_EQ(node.in.size(), 2u) << "two of the four shards are here";
  }
  EXPECT_EQ(linears, 2);
  EXPECT_EQ(sums, 2);
}

TEST(Schedule, CommunicationStartsEarlyAndWhatNeedsItComesLast) {
  const Graph global = parse_graph(R"(starling-graph 1
%x = input {index=0, shape=[8, 4]}
%s = sum(%x)
%r = all_reduce(%s)
%e = exp(%r)
%a = tanh(%x)
%b = sigmoid(%a)
%m = max(%b)
return %e, %m
)");
  EXPECT_EQ(print_short(run_pass("schedule", global, {})), R"(%0 = input 0
%1 = sum(%0)
%2 = all_reduce(%1) lane=comm
%3 = tanh(%0)
%4 = sigmoid(%3)
%5 = max(%4)
%6 = exp(%2)
return %6, %5
)");
}

TEST(Schedule, ReadersOfAVariableComeBeforeItsUpdate) {
  const Graph graph = parse_graph(R"(starling-graph 1
variable 0 "w" f32[4]
%x = input {index=0, shape=[4]}
%w = variable {index=0, shape=[4]}
%n = add(%w, %x)
%r = mul(%w, %x)
assign(%n) {index=0}
return %r
)");
  const std::string text = print_short(run_pass("schedule", graph, {}));
  EXPECT_LT(text.find("mul("), text.find("assign")) << text;
}

TEST(Partition, FilesAreWrittenByTheFirstRank) {
  const Graph global = parse_graph(R"(starling-graph 1
variable 0 "w" f32[3, 4]
body 0 {
%w = input {index=0, shape=[3, 4]}
%n = save(%w) {file="b", names="w"}
return %n
}
body 1 {
%w = input {index=0, shape=[3, 4]}
%n = full {dtype=i64}
return %n
}
%p = input {index=0, dtype=bool}
%w = variable {index=0, shape=[3, 4]}
%n = save(%w) {file="a", names="w"}
%m = cond(%p, %w) {then=0, otherwise=1}
return %n, %m
)");
  PassContext at{.world = 2, .rank = 0, .inputs = {Layout::replicate()}};
  const auto elsewhere = [&](int rank) {
    at.rank = rank;
    const std::string text = print(run_pass("partition", global, at));
    int found = 0;
    for (auto from = text.find("saved_elsewhere("); from != std::string::npos;
         from = text.find("saved_elsewhere(", from + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(elsewhere(0), 0);
  EXPECT_EQ(elsewhere(1), 2) << "in the step and in the branch";
}

}  // namespace
}  // namespace starling::graph
