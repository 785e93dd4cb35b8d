#include "starling/base/error.h"
#include "starling/graph/passes/partition/partitioner.h"

namespace starling::graph::passes {
namespace {

// Shards are cut and summed in the same way for any number of ranks, so results are bitwise equal.
Graph logical_shards(const Graph& graph, const PassContext& context) {
  if (context.shards == 0) return graph;
  check(context.world <= context.shards, "[deterministic] expected at most {} workers for {} logical shards, got {}",
        context.shards, context.shards, context.world);
  const Piece own = piece_of(context.shards, context.rank, context.world);
  return Partitioner(graph,
                     {.parts = context.shards,
                      .first = static_cast<int>(own.begin),
                      .count = static_cast<int>(own.size),
                      .ordered = true,
                      .order = context.shard_order,
                      .group = Symbol(context.group)},
                     context.inputs)
      .run();
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_logical_shards(PassTable& table) {
  table.add({.name = "logical_shards",
             .doc = "repeat the step for each logical shard and add gradients in shard order",
             .order = 100,
             .required = true,  // without it a distributed program would be wrong, not just slower
             .run = passes::logical_shards});
}

}  // namespace starling::graph
