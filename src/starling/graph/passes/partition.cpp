#include <algorithm>

#include "starling/graph/passes/partition/partitioner.h"

namespace starling::graph::passes {
namespace {

// True if a variable is marked as stored in pieces.
bool stores_pieces(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    if (!is_op(node, "variable")) return false;
    const Layouts& marked = graph.value(node.out[0]).layouts;
    return !marked.empty() && marked[0].is_split();
  });
}

// Rows of logical shards were cut by the pass before; only state in pieces is left to do then.
Graph partition(const Graph& graph, const PassContext& context) {
  const bool shards_done = context.shards > 0;
  if (context.world == 1 || (shards_done && !stores_pieces(graph))) return graph;
  const auto& off = context.program.disable;
  const bool joins = !off.contains("buckets") && !off.contains("all");
  return Partitioner(graph,
                     {.parts = context.world,
                      .first = context.rank,
                      .count = 1,
                      .group = Symbol(context.group),
                      .bucket_bytes = joins ? context.program.bucket_bytes : 0,
                      .shards_done = shards_done},
                     shards_done ? std::vector<Layout>() : context.inputs)
      .run();
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_partition(PassTable& table) {
  table.add({.name = "partition",
             .doc = "cut the global program for this rank and insert collectives",
             .order = 300,
             .required = true,  // without it a distributed program would be wrong, not just slower
             .run = passes::partition});
}

}  // namespace starling::graph
