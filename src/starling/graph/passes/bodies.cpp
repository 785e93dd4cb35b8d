#include "starling/graph/pass.h"

namespace starling::passes {

// Runs all passes on each body, a program of its own on one rank.
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
