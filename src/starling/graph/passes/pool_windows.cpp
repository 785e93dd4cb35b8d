#include "starling/graph/match.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/def/attrs/pool.h"
#include "starling/ops/def/registry.h"

// A gradient of max pooling on a GPU whose positions come from windows: each element looks at the windows it lies in,
// so that sums need neither atomics nor lists, and have one order.
namespace starling::graph::passes {
namespace {

// Pooling that made these positions; null for others.
const Node* pooling(const Graph& graph, ValueId index) {
  const Value& places = graph.value(index);
  if (places.output != 1 || !is_op(graph.node(places.node), "max_pool2d")) return nullptr;
  return &graph.node(places.node);
}

Graph pool_windows(const Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const bool fits = is_op(node, "max_pool_backward") && node.device.kind == DeviceKind::cuda && is_pure(node);
    const Node* pool = fits ? pooling(graph, node.in[1]) : nullptr;
    if (!pool || graph.value(pool->in[0]).type.shape != graph.value(node.out[0]).type.shape) {
      rewriter.copy(id);
      continue;
    }
    const auto& a = pool->attrs.as<op::MaxPoolAttrs>();
    const auto in = rewriter.map({node.in.data(), node.in.size()});
    const op::MaxPoolGradAttrs attrs{
        graph.value(node.out[0]).type.shape, a.kernel, a.stride, a.padding, a.dilation, a.ceil_mode};
    const NodeId made = rewriter.emit(find_op("max_pool2d_backward"), {in.data(), in.size()}, attrs, id);
    const ValueId dx = rewriter.to().node(made).out[0];
    rewriter.to().value(dx).layouts = graph.value(node.out[0]).layouts;
    rewriter.set(node.out[0], dx);
    rewriter.stands_for(id, made);
  }
  return rewriter.finish();
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_pool_windows(PassTable& table) {
  table.add({.name = "pool_windows",
             .doc = "gather gradients of max pooling by windows, on GPUs",
             .order = 1550,
             .run = passes::pool_windows});
}

}  // namespace starling::graph
