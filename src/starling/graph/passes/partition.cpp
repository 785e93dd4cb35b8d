#include "starling/graph/passes/partition/partitioner.h"

namespace starling::graph::passes {
namespace {

Graph partition(const Graph& graph, const PassContext& context) {
  if (context.world == 1 || context.shards > 0) return graph;
  const auto& off = context.program.disable;
  const bool joins = !off.contains("buckets") && !off.contains("all");
  return Partitioner(graph,
                     {.parts = context.world,
                      .first = context.rank,
                      .count = 1,
                      .group = Symbol(context.group),
                      .bucket_bytes = joins ? context.program.bucket_bytes : 0},
                     context.inputs)
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
