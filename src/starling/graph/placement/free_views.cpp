#include "starling/graph/placement/tasks.h"

namespace starling::graph {

FreeViews find_free_views(const Graph& graph) {
  const auto count = graph.values().size();
  FreeViews views{std::vector<ValueId>(count), std::vector<bool>(count, true)};
  std::vector<Shape> strides(count);
  for (const Node& node : graph.nodes()) {
    for (ValueId out : node.out) {
      views.base[static_cast<std::size_t>(out)] = out;
      strides[static_cast<std::size_t>(out)] = contiguous_strides(graph.value(out).type.shape);
    }
    if (!node.op->view) continue;
    const auto from = static_cast<std::size_t>(node.in[0]), to = static_cast<std::size_t>(node.out[0]);
    const auto view = node.op->view({graph.value(node.in[0]).type.shape, strides[from], node.attrs});
    if (!view) continue;
    views.base[to] = views.base[from];
    strides[to] = view->strides;
    views.dense[to] = is_contiguous(view->shape, view->strides);
  }
  return views;
}

bool is_copied_along(const Graph& graph, const FreeViews& views, NodeId id) {
  const Node& node = graph.node(id);
  if (is_op(node, "constant")) return true;
  if (node.out.size() != 1 || node.in.size() != 1 || !node.after.empty()) return false;
  const ValueId out = node.out[0], base = views.base[static_cast<std::size_t>(out)];
  if (base == out) return false;
  // A dense slice is cheaper to send than its base.
  const bool piece = views.dense[static_cast<std::size_t>(out)] &&
                     graph.value(out).type.shape.numel() < graph.value(base).type.shape.numel();
  return !piece;
}

NodeId maker_of(const Graph& graph, const FreeViews& views, ValueId id) {
  NodeId maker = graph.value(id).node;
  while (is_copied_along(graph, views, maker)) {
    if (graph.node(maker).in.empty()) return -1;
    maker = graph.value(graph.node(maker).in[0]).node;
  }
  return maker;
}

}  // namespace starling::graph
