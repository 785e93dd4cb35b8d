#include "starling/graph/passes/fuse/fusion_roles.h"

#include <algorithm>

#include "starling/ops/api/reduce.h"
#include "starling/ops/def/attrs/fused.h"

namespace starling::graph {
namespace {

bool contains(const Shape& list, int axis) { return std::find(list.begin(), list.end(), axis) != list.end(); }

}  // namespace

FusionKind fusion_kind(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.after.empty() || node.in.empty() || node.out.size() != 1) return FusionKind::none;
  if (node.op->elementwise()) {
    const bool plain = !node.op->stateful && !node.op->random;
    return plain && node.op->attrs->fields.size() <= FusedStep::kMaxAttributes ? FusionKind::map : FusionKind::none;
  }
  // Only CPU kernels support reductions in chains.
  if (node.device.kind != DeviceKind::cpu) return FusionKind::none;
  if (fused_reduction(*node.op)) return FusionKind::reduce;
  if (is_op(node, "broadcast_to")) return FusionKind::stretch;
  if (is_op(node, "reshape") || is_op(node, "squeeze") || is_op(node, "unsqueeze")) return FusionKind::reshape;
  return FusionKind::none;
}

Shape fusion_axes(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return op::reduced_axes(node.attrs.as<op::ReduceAttrs>().axes, graph.value(node.in[0]).type.shape.rank(), "fuse");
}

Shape collapsed_shape(const Shape& whole, const Shape& axes) { return op::reduced_shape(whole, axes, true); }

std::optional<Shape> padded_shape(const Shape& shape, int rank) {
  if (shape.rank() > rank) return std::nullopt;
  Shape padded = shape;
  while (padded.rank() < rank) padded.insert(0, 1);
  return padded;
}

std::optional<Shape> fusion_places(const Shape& shape, const Shape& whole, const Shape& axes) {
  Shape all, kept;
  for (int d = 0; d < whole.rank(); ++d) {
    all.push_back(d);
    if (!contains(axes, d)) kept.push_back(d);
  }
  if (shape == collapsed_shape(whole, axes)) return all;
  if (shape == op::reduced_shape(whole, axes, false)) return kept;
  return std::nullopt;
}

bool are_last(const Shape& axes, const Shape& whole) {
  bool inside = true;
  for (int d = whole.rank() - 1; d >= 0; --d) {
    if (whole[d] == 1) continue;
    if (contains(axes, d) && !inside) return false;
    inside = inside && contains(axes, d);
  }
  return true;
}

bool even_along(const Shape& operand, const Shape& whole, const Shape& axes) {
  const auto padded = padded_shape(operand, whole.rank());
  bool full = false, stretched = false;
  for (auto axis : axes) {
    const int d = static_cast<int>(axis);
    if (whole[d] == 1) continue;
    full = full || (padded && (*padded)[d] == whole[d]);
    stretched = stretched || !padded || (*padded)[d] != whole[d];
  }
  return padded && !(full && stretched);
}

bool all_or_none(const Shape& other, const Shape& axes, const Shape& whole) {
  int in = 0, out = 0;
  for (auto axis : axes) {
    if (whole[static_cast<int>(axis)] == 1) continue;
    (contains(other, static_cast<int>(axis)) ? in : out) += 1;
  }
  return in == 0 || out == 0;
}

}  // namespace starling::graph
