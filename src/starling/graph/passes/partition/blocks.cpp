// Reshapes of rows, and rows that lie in equal blocks, each split by itself: sequences with the batch second, whose two
// dimensions are merged.
#include <algorithm>

#include "starling/graph/passes/partition/partitioner.h"

namespace starling::graph {

// Reshape of [blocks, rows, …] with split rows to [blocks · rows, …]: each rank keeps its rows of every block. Not
// applied to shards of the deterministic mode, nor to blocks that do not split evenly.
bool Partitioner::merge_blocks(NodeId id) {
  const Node& node = global_.node(id);
  if (!is_op(node, "reshape") || mesh_.ordered || !layout_of(node.in[0]).is_split(1)) return false;
  const Shape& from = global_.value(node.in[0]).type.shape;
  const Shape& to = global_.value(node.out[0]).type.shape;
  if (to.rank() + 1 != from.rank() || to[0] != from[0] * from[1] || to.numel() == 0) return false;
  for (int i = 1; i < to.rank(); ++i) {
    if (to[i] != from[i + 1]) return false;
  }
  if (from[0] == 1 || from[1] % mesh_.parts != 0) return false;
  distribute(id, {{Layout::split(1)}, {Layout::split(0)}});
  blocks(node.out[0]) = from[0];
  return true;
}

// Inverse of merge_blocks.
bool Partitioner::part_blocks(NodeId id) {
  const Node& node = global_.node(id);
  if (!is_op(node, "reshape") || blocks(node.in[0]) == 0) return false;
  const Shape& from = global_.value(node.in[0]).type.shape;
  const Shape& to = global_.value(node.out[0]).type.shape;
  if (to.rank() != from.rank() + 1 || to[0] != blocks(node.in[0])) return false;
  for (int i = 1; i < from.rank(); ++i) {
    if (from[i] != to[i + 1]) return false;
  }
  distribute(id, {{Layout::split(0)}, {Layout::split(1)}}, to[0]);
  return true;
}

// Reshape of rows to other rows, as of [samples, steps, …] to [samples · steps, …] and back. Where both numbers of rows
// are multiples of the parts, a part of the one has the elements of the same part of the other.
bool Partitioner::keep_rows(NodeId id) {
  const Node& node = global_.node(id);
  if (!is_op(node, "reshape") || mesh_.ordered || !layout_of(node.in[0]).is_split(0)) return false;
  if (blocks(node.in[0]) != 0 || state_[static_cast<std::size_t>(node.in[0])]) return false;
  const Shape& from = global_.value(node.in[0]).type.shape;
  const Shape& to = global_.value(node.out[0]).type.shape;
  if (to.rank() == 0 || to.numel() == 0 || to[0] == from[0]) return false;
  if (from[0] % mesh_.parts != 0 || to[0] % mesh_.parts != 0) return false;
  distribute(id, {{Layout::split(0)}, {Layout::split(0)}});
  return true;
}

// Number of blocks of a node's operands, if it treats each row independently and all operands have the same blocks;
// else 0.
std::int64_t Partitioner::common_blocks(const Node& node, const ShardRule& rule) const {
  constexpr std::string_view kByRow[] = {"matmul", "linear", "sum"};
  const bool by_row =
      node.op->elementwise() || std::find(std::begin(kByRow), std::end(kByRow), node.op->name) != std::end(kByRow);
  if (!by_row) return 0;
  std::int64_t found = 0;
  for (ValueId in : node.in) found = std::max(found, blocks(in));
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (rule.in[i].is_split() && (rule.in[i].dim != 0 || blocks(node.in[i]) != found)) return 0;
  }
  for (const Layout& out : rule.out) {
    if (out.is_split() && out.dim != 0) return 0;
  }
  return found;
}

// Pieces of a blocked value with the blocks as their own dimension; `shape` becomes that of the whole.
Partitioner::Pieces Partitioner::blocks_as_columns(ValueId value, Shape& shape, NodeId like) {
  const auto with_blocks = [&](const Shape& merged) {
    Shape parted{blocks(value), merged[0] / blocks(value)};
    for (int i = 1; i < merged.rank(); ++i) parted.push_back(merged[i]);
    return parted;
  };
  shape = with_blocks(shape);
  Pieces out;
  for (ValueId own : pieces(value))
    out.push_back(reshaped(own, with_blocks(rewriter_.to().value(own).type.shape), like));
  return out;
}

}  // namespace starling::graph
