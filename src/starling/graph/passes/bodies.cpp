#include "starling/graph/pass.h"

namespace starling::passes {

// A body is a program of its own, on one rank: every pass has been over the graph around it, now they go over it.
Graph bodies(const Graph& graph, const PassContext& context) {
  if (graph.bodies.empty()) return graph;
  Graph made = graph;
  PassContext inside;
  inside.threads = context.threads;
  for (auto& body : made.bodies)
    body = std::make_shared<const Graph>(run_passes(*body, inside, context.disabled, context.passes).graph);
  return made;
}

}  // namespace starling::passes
