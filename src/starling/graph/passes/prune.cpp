#include "starling/graph/control_bodies.h"
#include "starling/graph/control_types.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/control.h"

namespace starling::passes {
namespace {

// Arguments keep their places whether they are read or not. A collective without readers may go: every rank drops the
// same.
bool is_root(const Graph& graph, const Node& node) {
  if (is_op(node, "assign") || is_op(node, "input")) return true;
  return is_control(*node.op) ? has_effects(graph, node) : node.op->stateful && !is_source(node);
}

std::vector<bool> needed_nodes(const Graph& graph) {
  std::vector<bool> needed(graph.nodes().size());
  const auto need = [&](NodeId id) { needed[static_cast<std::size_t>(id)] = true; };
  for (ValueId id : graph.outputs) need(graph.value(id).node);
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    const Node& node = graph.node(id);
    if (is_root(graph, node)) need(id);
    if (!needed[static_cast<std::size_t>(id)]) continue;
    for (ValueId in : node.in) need(graph.value(in).node);
    for (NodeId before : node.after) need(before);
  }
  return needed;
}

}  // namespace

Graph prune(const Graph& graph, const PassContext&) {
  const auto needed = needed_nodes(graph);
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (needed[static_cast<std::size_t>(id)]) rewriter.copy(id);
  }
  Graph made = trim_loops(rewriter.finish());
  drop_unused_bodies(made);
  return made;
}

}  // namespace starling::passes
