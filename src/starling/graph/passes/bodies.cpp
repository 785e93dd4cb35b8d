#include "starling/graph/pass.h"

namespace starling::graph::passes {
namespace {

// Runs all passes on each body, a program of its own on one rank.
Graph bodies(const Graph& graph, const PassContext& context) {
  if (graph.bodies.empty()) return graph;
  Graph made = graph;
  PassContext inside;
  inside.program.threads = context.program.threads;
  for (auto& body : made.bodies)
    body = std::make_shared<const Graph>(run_passes(*body, inside, context.program.disable, context.passes).graph);
  return made;
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_bodies(PassTable& table) {
  table.add({.name = "bodies",
             .doc = "run the passes over the bodies of cond, while and scan",
             .order = 1000,
             .run = passes::bodies});
}

}  // namespace starling::graph
