#include "starling/graph/passes/prune.h"

#include "starling/graph/control/control_bodies.h"
#include "starling/graph/control/control_types.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/ops/def/attrs/state.h"

namespace starling::graph::passes {
namespace {

// Roots are kept: arguments keep their positions even if unread. A collective without readers is dropped, on every rank
// alike.
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

// Drops unread constants; the others move up.
void drop_unread_constants(Graph& graph) {
  std::vector<std::int64_t> moved(graph.constants.size(), -1);
  std::vector<Tensor> kept;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!is_op(graph.node(id), "constant")) continue;
    const auto index = static_cast<std::size_t>(source_index(graph.node(id)));
    if (moved[index] < 0) {
      moved[index] = static_cast<std::int64_t>(kept.size());
      kept.push_back(graph.constants[index]);
    }
    op::SourceAttrs attrs = graph.node(id).attrs.as<op::SourceAttrs>();
    attrs.index = moved[index];
    graph.node(id).attrs = attrs;
  }
  graph.constants = std::move(kept);
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
  drop_unread_constants(made);
  return made;
}

}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_prune(PassTable& table) {
  table.add({.name = "prune", .doc = "drop nodes that no output or effect needs", .order = 400, .run = passes::prune});
}

}  // namespace starling::graph
