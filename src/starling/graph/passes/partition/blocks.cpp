// Reshapes of split values, and dimensions that lie in equal blocks, each split by itself: sequences with the batch
// second, whose two dimensions are merged, and queries, keys and values that one weight makes.
#include <algorithm>

#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/attrs/slice.h"
#include "starling/ops/def/attrs/update.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {

// Reshape of [blocks, rows, …] with split rows to [blocks · rows, …]: each rank keeps its rows of every block. Not
// applied to shards of the deterministic mode, nor to blocks that do not split evenly.
bool Partitioner::merge_blocks(NodeId id) {
  const Node& node = global_.node(id);
  if (!is_op(node, "reshape") || mesh_.ordered || !layout_of(node.in[0]).is_split(1) || blocks(node.in[0]) != 0)
    return false;
  const Shape& from = global_.value(node.in[0]).type.shape;
  const Shape& to = global_.value(node.out[0]).type.shape;
  if (to.rank() + 1 != from.rank() || to[0] != from[0] * from[1] || to.numel() == 0) return false;
  for (int i = 1; i < to.rank(); ++i) {
    if (to[i] != from[i + 1]) return false;
  }
  if (from[0] == 1 || from[1] % mesh_.parts != 0) return false;
  const NodeId made = rewriter_.emit(*node.op, {pieces(node.in[0]).data(), 1},
                                     op::ShapeAttrs{local_shape(to, Layout::split(0), mesh_.first, from[0])}, id);
  set(node.out[0], rewriter_.to().node(made).out[0], Layout::split(0));
  blocks(node.out[0]) = from[0];
  return true;
}

// Inverse of merge_blocks.
bool Partitioner::part_blocks(NodeId id) {
  const Node& node = global_.node(id);
  if (!is_op(node, "reshape") || mesh_.count > 1 || blocks(node.in[0]) == 0 || !layout_of(node.in[0]).is_split(0))
    return false;
  const Shape& from = global_.value(node.in[0]).type.shape;
  const Shape& to = global_.value(node.out[0]).type.shape;
  if (to.rank() != from.rank() + 1 || to[0] != blocks(node.in[0])) return false;
  for (int i = 1; i < from.rank(); ++i) {
    if (from[i] != to[i + 1]) return false;
  }
  const NodeId made = rewriter_.emit(*node.op, {pieces(node.in[0]).data(), 1},
                                     op::ShapeAttrs{local_shape(to, Layout::split(1), mesh_.first)}, id);
  set(node.out[0], rewriter_.to().node(made).out[0], Layout::split(1));
  return true;
}

// Reshape that leaves the elements before a split dimension as they are and groups those from there on otherwise: rows
// of [samples, steps, …] as [samples · steps, …], columns as heads, and back. Where the dimension and the one in its
// place are both multiples of the parts, a part of the one has the elements of the same part of the other.
bool Partitioner::keep_major(NodeId id) {
  const Node& node = global_.node(id);
  const ValueId in = node.in.empty() ? -1 : node.in[0];
  if (!is_op(node, "reshape") || mesh_.ordered || !layout_of(in).is_split() || blocks(in) != 0) return false;
  if (state_[static_cast<std::size_t>(in)]) return false;
  const Shape& from = global_.value(in).type.shape;
  const Shape& to = global_.value(node.out[0]).type.shape;
  const int dim = layout_of(in).dim;
  if (to.numel() == 0 || from[dim] % mesh_.parts != 0) return false;
  const std::int64_t before = op::elements_before(from, dim);
  for (int d = 0; d < to.rank(); ++d) {
    if (op::elements_before(to, d) != before || to[d] % mesh_.parts != 0) continue;
    distribute(id, {{Layout::split(dim)}, {Layout::split(d)}});
    return true;
  }
  return false;
}

// Slice of whole blocks out of a dimension that lies in blocks: each rank takes its part of them.
bool Partitioner::take_block(NodeId id) {
  const Node& node = global_.node(id);
  if ((!is_op(node, "split") && !is_op(node, "slice")) || blocks(node.in[0]) == 0) return false;
  const Shape& shape = global_.value(node.in[0]).type.shape;
  const int dim = layout_of(node.in[0]).dim;
  const std::int64_t count = blocks(node.in[0]), block = shape[dim] / count;
  op::SliceAttrs range;
  if (is_op(node, "split")) {
    const auto& a = node.attrs.as<op::SplitAttrs>();
    range = {.axis = a.axis, .begin = a.index * (shape[dim] / a.count), .end = (a.index + 1) * (shape[dim] / a.count)};
  } else {
    range = node.attrs.as<op::SliceAttrs>();
  }
  if (normalize_axis(range.axis, shape.rank(), "slice") != dim || range.step != 1) return false;
  if (range.begin < 0 || range.end <= range.begin || range.end > shape[dim]) return false;
  if (block == 0 || range.begin % block != 0 || range.end % block != 0) return false;
  const std::int64_t own = piece_of(block, mesh_.first, mesh_.parts).size, taken = (range.end - range.begin) / block;
  const op::SliceAttrs local{.axis = dim, .begin = range.begin / block * own, .end = range.end / block * own};
  const NodeId made = rewriter_.emit(find_op("slice"), {pieces(node.in[0]).data(), 1}, local, id);
  set(node.out[0], rewriter_.to().node(made).out[0], Layout::split(dim));
  blocks(node.out[0]) = taken > 1 ? taken : 0;
  return true;
}

// Gradient of take_block: split values laid into one of equal blocks, among zeros.
bool Partitioner::put_block(NodeId id) {
  const Node& node = global_.node(id);
  if (!is_op(node, "slice_backward") || blocks(node.in[0]) != 0 || !layout_of(node.in[0]).is_split()) return false;
  if (mesh_.ordered || state_[static_cast<std::size_t>(node.in[0])]) return false;
  const auto& a = node.attrs.as<op::SliceBackwardAttrs>();
  const int dim = layout_of(node.in[0]).dim;
  if (normalize_axis(a.axis, a.shape.rank(), "slice_backward") != dim || a.step != 1 || a.begin < 0) return false;
  const std::int64_t block = global_.value(node.in[0]).type.shape[dim];
  if (block == 0 || a.shape[dim] % block != 0 || a.begin % block != 0 || a.end != a.begin + block) return false;
  const std::int64_t count = a.shape[dim] / block, own = piece_of(block, mesh_.first, mesh_.parts).size;
  const std::int64_t begin = a.begin / block * own;
  const op::SliceBackwardAttrs local{local_shape(a.shape, Layout::split(dim), mesh_.first, count), dim, begin,
                                     begin + own, 1};
  const NodeId made = rewriter_.emit(*node.op, {pieces(node.in[0]).data(), 1}, local, id);
  set(node.out[0], rewriter_.to().node(made).out[0], Layout::split(dim));
  blocks(node.out[0]) = count > 1 ? count : 0;
  return true;
}

// Number of blocks of a node's operands, if it treats each element of the dimension independently, or sums over all of
// them, and all operands that are split so now have the same blocks; else 0. Random numbers follow the place in the
// whole, which blocks do not tell.
std::int64_t Partitioner::common_blocks(const Node& node, const ShardRule& rule) const {
  const bool by_index = node.op->elementwise() || node.op->by_index || op::update_operands(*node.op, node.attrs);
  if (!by_index || node.attrs.find("offset") != nullptr) return 0;
  std::int64_t found = 0;
  for (ValueId in : node.in) found = std::max(found, blocks(in));
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    const bool used = rule.in[i].is_split() && layouts_[static_cast<std::size_t>(node.in[i])] == rule.in[i];
    if (used && blocks(node.in[i]) != found) return 0;
    if (rule.in[i].is_split() &&
        global_.value(node.in[i]).type.shape[rule.in[i].dim] % std::max<std::int64_t>(found, 1))
      return 0;
  }
  return found;
}

}  // namespace starling::graph
