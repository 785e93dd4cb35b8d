#include "starling/base/error.h"
#include "starling/graph/passes/partition/partitioner.h"

namespace starling::passes {

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
                      .order = context.shard_order},
                     context.inputs)
      .run();
}

}  // namespace starling::passes
