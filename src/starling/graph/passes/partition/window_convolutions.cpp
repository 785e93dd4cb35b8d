// Convolutions of pictures whose rows are split, and their gradients.
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/graph/passes/partition/window_geometry.h"
#include "starling/ops/def/attrs/conv.h"
#include "starling/ops/def/attrs/conv_transpose.h"

namespace starling::graph {

bool Partitioner::convolve_rows(NodeId id) {
  const Node& node = global_.node(id);
  if (is_op(node, "conv2d")) return convolve<op::Conv2dAttrs>(id);
  if (is_op(node, "conv3d")) return convolve<op::Conv3dAttrs>(id);
  if (is_op(node, "conv2d_backward_weight")) return convolve_for_weight<op::Conv2dGradAttrs>(id);
  if (is_op(node, "conv3d_backward_weight")) return convolve_for_weight<op::Conv3dGradAttrs>(id);
  if (is_op(node, "conv2d_backward_input")) return convolve_back<op::Conv2dGradAttrs>(id);
  if (is_op(node, "conv_transpose2d")) return convolve_back<op::ConvTranspose2dAttrs>(id);
  if (is_op(node, "conv_transpose3d")) return convolve_back<op::ConvTranspose3dAttrs>(id);
  return is_op(node, "conv3d_backward_input") && convolve_back<op::Conv3dGradAttrs>(id);
}

template <class A>
bool Partitioner::convolve(NodeId id) {
  const Node& node = global_.node(id);
  const auto& a = node.attrs.as<A>();
  const Shape &x = shape_of(node.in[0]), &y = shape_of(node.out[0]);
  const auto windows = windows_over(node.in[0], x, y[kHeight], windows_of_conv(a, shape_of(node.in[1])));
  if (!windows || !has_split_rows(node.in[0])) return false;
  SmallVector<ValueId, 3> in{with_borders(node.in[0], *windows)};
  for (std::size_t i = 1; i < node.in.size(); ++i) in.push_back(whole(node.in[i]));
  const NodeId made = rewriter_.emit(*node.op, {in.data(), in.size()}, without_padding(a, x.rank()), id);
  set(node.out[0], rewriter_.to().node(made).out[0], kRows);
  return true;
}

// Every rank has the terms of its own windows.
template <class A>
bool Partitioner::convolve_for_weight(NodeId id) {
  const Node& node = global_.node(id);
  const auto& a = node.attrs.as<A>();
  const Shape &dy = shape_of(node.in[0]), &x = shape_of(node.in[1]);
  const auto windows = windows_over(node.in[1], x, dy[kHeight], windows_of_conv(a, a.shape));
  if (!windows || (!has_split_rows(node.in[0]) && !has_split_rows(node.in[1]))) return false;
  const ValueId own = as(node.in[0], kRows, 0)[0], seen = with_borders(node.in[1], *windows);
  set(node.out[0], emit(node.op->name, {own, seen}, without_padding(a, x.rank()), id), Layout::partial());
  return true;
}

// Gradients for pictures, and transposed convolutions, which are such: windows add to the rows of a result. A bias is
// added once, by the owners.
template <class A>
bool Partitioner::convolve_back(NodeId id) {
  const Node& node = global_.node(id);
  A a = node.attrs.as<A>();
  const Shape &dy = shape_of(node.in[0]), &dx = shape_of(node.out[0]);
  const auto windows = windows_over(node.out[0], dx, dy[kHeight], windows_of_conv(a, shape_of(node.in[1])));
  if (!windows || !has_split_rows(node.in[0])) return false;
  if constexpr (requires { a.shape; }) a.shape = seen_shape(a.shape, *windows);
  if constexpr (requires { a.output_padding; }) a.output_padding[0] = 0;
  const ValueId weight = whole(node.in[1]);
  ValueId made = emit(node.op->name, {pieces(node.in[0])[0], weight}, without_padding(a, dy.rank()), id);
  made = to_owners(made, *windows);
  if (node.in.size() > 2) {
    Shape channels = Shape::filled(dx.rank() - 1, 1);
    channels[0] = dx[1];
    made = emit("add", {made, reshaped(whole(node.in[2]), channels, id)}, {}, id);
  }
  set(node.out[0], made, kRows);
  return true;
}

}  // namespace starling::graph
