#include "starling/graph/passes/partition/partitioner.h"

namespace starling::passes {

Graph partition(const Graph& graph, const PassContext& context) {
  if (context.world == 1 || context.shards > 0) return graph;
  return Partitioner(graph, {.parts = context.world, .first = context.rank, .count = 1}, context.inputs).run();
}

}  // namespace starling::passes
