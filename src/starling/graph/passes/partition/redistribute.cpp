// Exchanges along any dimension, by those along the first.
#include <algorithm>

#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/shape_ops.h"
#include "starling/ops/def/slice.h"

namespace starling::graph {
namespace {

// Order of dimensions with `dim` moved to the front, or back from there.
Shape moved(int rank, int dim, bool back) {
  Shape order;
  if (!back) order.push_back(dim);
  for (int d = back ? 1 : 0; d < rank; ++d) {
    if (back && order.rank() == dim) order.push_back(0);
    if (back || d != dim) order.push_back(d);
  }
  if (back && order.rank() == dim) order.push_back(0);
  return order;
}

// Order with the first two dimensions exchanged.
Shape exchanged(int rank) {
  Shape order{1, 0};
  for (int d = 2; d < rank; ++d) order.push_back(d);
  return order;
}

Shape parted(const Shape& shape, std::int64_t blocks) {
  Shape out{blocks, shape[0] / blocks};
  for (int d = 1; d < shape.rank(); ++d) out.push_back(shape[d]);
  return out;
}

Shape merged(const Shape& shape) {
  Shape out{shape[0] * shape[1]};
  for (int d = 2; d < shape.rank(); ++d) out.push_back(shape[d]);
  return out;
}

}  // namespace

ValueId Partitioner::emit(std::string_view op, std::initializer_list<ValueId> in, const Attrs& attrs, NodeId like) {
  return rewriter_.to().node(rewriter_.emit(find_op(op), {in.begin(), in.size()}, attrs, like)).out[0];
}

ValueId Partitioner::reshaped(ValueId value, const Shape& shape, NodeId like) {
  return emit("reshape", {value}, op::ShapeAttrs{shape}, like);
}

// Sets the only piece of a result, made outside of distribute().
void Partitioner::set(ValueId old, ValueId made, Layout layout) {
  rewriter_.stands_for(global_.value(old).node, rewriter_.to().value(made).node);
  pieces(old) = {made};
  layout_of(old) = layout;
  const auto& in = global_.maker(old).in;
  of_inputs_[static_cast<std::size_t>(old)] = layout.is_split() && !in.empty() && is_of_inputs(in[0]);
  rewriter_.to().value(made).layouts = {layout};
}

// The split dimension first, without blocks: what lies in blocks becomes [split, blocks, …].
ValueId Partitioner::with_first(ValueId value, int dim, std::int64_t blocks, NodeId like) {
  const auto shape = [&]() -> const Shape& { return rewriter_.to().value(value).type.shape; };
  if (dim != 0) value = emit("transpose", {value}, op::TransposeAttrs{moved(shape().rank(), dim, false)}, like);
  if (blocks == 0) return value;
  value = reshaped(value, parted(shape(), blocks), like);
  return emit("transpose", {value}, op::TransposeAttrs{exchanged(shape().rank())}, like);
}

// Back from with_first, of a piece or of the whole of a value with this shape.
ValueId Partitioner::with_first_back(ValueId value, const Shape& whole, int dim, std::int64_t blocks, NodeId like) {
  const auto shape = [&]() -> const Shape& { return rewriter_.to().value(value).type.shape; };
  if (blocks > 0) {
    value = emit("transpose", {value}, op::TransposeAttrs{exchanged(shape().rank())}, like);
    value = reshaped(value, merged(shape()), like);
  }
  return dim == 0 ? value : emit("transpose", {value}, op::TransposeAttrs{moved(whole.rank(), dim, true)}, like);
}

Partitioner::Pieces Partitioner::gathered(ValueId value, NodeId like) {
  const Shape& shape = global_.value(value).type.shape;
  const int dim = layout_of(value).dim;
  const std::int64_t in_blocks = blocks(value);
  const op::PiecesAttrs all = exchange_of(value, shape[dim] / std::max<std::int64_t>(in_blocks, 1));
  const ValueId own = with_first(pieces(value)[0], dim, in_blocks, like);
  return {with_first_back(emit("all_gather", {own}, all, like), shape, dim, in_blocks, like)};
}

// Piece of the rank of a sum of terms; the value stays terms for nodes that need it otherwise.
Partitioner::Pieces Partitioner::scattered(ValueId value, int dim, std::int64_t blocks) {
  const auto [known, fresh] = scattered_.try_emplace({value, dim, blocks}, -1);
  if (!fresh) return {known->second};
  const NodeId like = global_.value(value).node;
  const Shape& shape = global_.value(value).type.shape;
  const op::PiecesAttrs all = exchange_of(value, shape[dim] / std::max<std::int64_t>(blocks, 1));
  const ValueId own = emit("reduce_scatter", {with_first(pieces(value)[0], dim, blocks, like)}, all, like);
  const ValueId back = with_first_back(own, shape, dim, blocks, like);
  rewriter_.to().value(back).layouts = {Layout::split(dim)};
  return {known->second = back};
}

// Pieces of the rank of a whole value.
Partitioner::Pieces Partitioner::cut(ValueId whole, const Shape& shape, int dim, std::int64_t blocks, NodeId like) {
  Pieces out;
  const std::int64_t block = shape[dim] / std::max<std::int64_t>(blocks, 1);
  const ValueId from = blocks > 0 ? with_first(whole, dim, blocks, like) : whole;
  for (int part = mesh_.first; part < mesh_.first + mesh_.count; ++part) {
    const Piece piece = piece_of(block, part, mesh_.parts);
    const op::SliceAttrs attrs{.axis = blocks > 0 ? 0 : dim, .begin = piece.begin, .end = piece.begin + piece.size};
    ValueId own = emit("slice", {from}, attrs, like);
    if (blocks > 0) own = with_first_back(own, shape, dim, blocks, like);
    rewriter_.to().value(own).layouts = {Layout::split(dim)};
    out.push_back(own);
  }
  return out;
}

}  // namespace starling::graph
