// Filters that are not shared between positions, and windows as columns, of pictures whose rows are split.
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/graph/passes/partition/window_geometry.h"
#include "starling/ops/def/attrs/local_conv.h"
#include "starling/ops/def/attrs/unfold.h"

namespace starling::graph {

bool Partitioner::place_rows(NodeId id) {
  const Node& node = global_.node(id);
  if (is_op(node, "local_conv2d")) return convolve_locally(id);
  if (is_op(node, "reshape")) return merge_rows(id);
  if (is_op(node, "unfold")) return unfold_rows(id);
  return is_op(node, "fold") && fold_rows(id);
}

// Positions of windows, all columns of one row after the other, are split by themselves where weights or columns have
// one for each: a rank's piece may begin and end within a row. These are the positions of its rows.
op::HaloAttrs Partitioner::positions_of_rows(ValueId named, int dim, std::int64_t rows, std::int64_t columns) const {
  return {.dim = dim,
          .size = rows * columns,
          .windows = rows,
          .stride = columns,
          .extent = columns,
          .rank = mesh_.first,
          .ranks = mesh_.parts,
          .name = Symbol(label_of(named)),
          .group = mesh_.group};
}

ValueId Partitioner::positions_to_rows(ValueId value, int dim, std::int64_t rows) {
  const ValueId own = as(value, Layout::split(dim), 0)[0];
  if (rows % mesh_.parts == 0) return own;
  const auto [known, fresh] = borders_.try_emplace(std::tuple(value, rows, dim, 0, 0, 0.0), -1);
  if (fresh)
    known->second = emit("halo", {own}, positions_of_rows(value, dim, rows, shape_of(value)[dim] / rows), now_);
  return known->second;
}

void Partitioner::set_positions(ValueId old, ValueId made, int dim, std::int64_t rows) {
  if (rows % mesh_.parts != 0)
    made = emit("halo_add", {made}, positions_of_rows(old, dim, rows, shape_of(old)[dim] / rows), now_);
  set(old, made, Layout::split(dim));
}

// Weights of their own at every position, [positions, out, taps], and a bias [out, rows, columns].
bool Partitioner::convolve_locally(NodeId id) {
  const Node& node = global_.node(id);
  const auto& a = node.attrs.as<op::LocalConv2dAttrs>();
  const std::int64_t count = shape_of(node.out[0])[kHeight];
  const auto windows = windows_over(node.in[0], shape_of(node.in[0]), count, windows_of_pool(a));
  if (!windows || !has_split_rows(node.in[0])) return false;
  SmallVector<ValueId, 3> in{with_borders(node.in[0], *windows), positions_to_rows(node.in[1], 0, count)};
  if (node.in.size() > 2) in.push_back(as(node.in[2], Layout::split(1), 0)[0]);
  const NodeId made = rewriter_.emit(*node.op, {in.data(), in.size()}, without_padding(a, kHeight + 2), id);
  set(node.out[0], rewriter_.to().node(made).out[0], kRows);
  return true;
}

// Rows and columns of a picture as positions, of which every rank has those of its rows.
bool Partitioner::merge_rows(NodeId id) {
  const Node& node = global_.node(id);
  const Shape &from = shape_of(node.in[0]), &to = shape_of(node.out[0]);
  if (!has_split_rows(node.in[0]) || from.rank() != kHeight + 2 || from[kHeight] < mesh_.parts) return false;
  if (to != Shape{from[0], from[1], from[kHeight] * from[kHeight + 1]}) return false;
  const std::int64_t own = own_piece(from[kHeight]).size * from[kHeight + 1];
  const ValueId rows = reshaped(pieces(node.in[0])[0], {from[0], from[1], own}, id);
  set_positions(node.out[0], rows, kHeight, from[kHeight]);
  return true;
}

// Windows as columns [n, taps, positions], and back, for their gradients.
bool Partitioner::unfold_rows(NodeId id) {
  const Node& node = global_.node(id);
  const auto& a = node.attrs.as<op::UnfoldAttrs>();
  const Shape& x = shape_of(node.in[0]);
  const op::HaloAttrs looks = windows_of_pool(a);
  const std::int64_t count = (x[kHeight] + 2 * looks.before - looks.extent) / looks.stride + 1;
  const auto windows = windows_over(node.in[0], x, count, looks);
  if (!windows || !has_split_rows(node.in[0])) return false;
  const ValueId seen = with_borders(node.in[0], *windows);
  set_positions(node.out[0], emit(node.op->name, {seen}, without_padding(a, kHeight + 2), id), kHeight, count);
  return true;
}

bool Partitioner::fold_rows(NodeId id) {
  const Node& node = global_.node(id);
  auto a = node.attrs.as<op::FoldAttrs>();
  const op::HaloAttrs looks = windows_of_pool(a);
  const std::int64_t count = (a.size[0] + 2 * looks.before - looks.extent) / looks.stride + 1;
  const auto windows = windows_over(node.out[0], shape_of(node.out[0]), count, looks);
  if (!windows || !has_split_rows(node.in[0])) return false;
  a.size[0] = op::rows_seen(*windows, mesh_.first).size;
  const ValueId rows = positions_to_rows(node.in[0], kHeight, count);
  set(node.out[0], to_owners(emit(node.op->name, {rows}, without_padding(a, kHeight + 2), id), *windows), kRows);
  return true;
}

}  // namespace starling::graph
