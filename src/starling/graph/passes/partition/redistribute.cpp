// Layouts that operands must have, by the way that sends least (ops/def/sharding/redistribution.h).
#include <algorithm>

#include "starling/base/error.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/attrs/slice.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/sharding/redistribution.h"
#include "starling/ops/def/sharding/resplit.h"

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

// As transitions have it, where a value without blocks has one.
Layout in_blocks(Layout layout, std::int64_t blocks) {
  layout.blocks = static_cast<std::int16_t>(std::max<std::int64_t>(blocks, 1));
  return layout;
}

}  // namespace

Partitioner::Pieces Partitioner::as(ValueId value, Layout wanted, std::int64_t blocks) {
  const Layout now = layout_of(value);
  if (now == wanted && (!now.is_split() || this->blocks(value) == blocks)) return pieces(value);
  const NodeId like = global_.value(value).node;
  if (wanted.is_replicate()) return replicate(value, like);
  if (wanted == Layout::partial()) return terms_of(value, like);
  check(wanted.is_split(), "[partition] expected to make %{} {} from {}, which cannot be done", value,
        to_string(wanted), to_string(now));
  if (can_scatter(value, wanted.dim, blocks)) {
    scatter(value);
    return as(value, wanted, blocks);
  }
  const std::string_view by = way_to_pieces(value, wanted, blocks);
  if (by == "reduce_scatter") return scattered(value, wanted.dim, blocks);
  if (by == "resplit") return resplit(value, wanted.dim, blocks);
  return cut(replicate(value, like)[0], global_.value(value).type.shape, wanted.dim, blocks, like);
}

// How a value becomes pieces: by the exchange of the table, or as a slice of the whole where that is here already, or
// cannot be avoided: shards of the deterministic mode are added whole, only sums are scattered, and gathers of state
// are counted.
std::string_view Partitioner::way_to_pieces(ValueId value, Layout wanted, std::int64_t blocks) const {
  const auto at = static_cast<std::size_t>(value);
  const Layout now = layouts_[at];
  if (mesh_.ordered || state_[at] || !whole_[at].empty()) return "slice";
  if (now.is_partial() && now != Layout::partial()) return "slice";
  return transition(in_blocks(now, this->blocks(value)), in_blocks(wanted, blocks)).by;
}

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
  const auto [known, fresh] = exchanged_.try_emplace({value, dim, blocks}, -1);
  if (!fresh) return {known->second};
  const NodeId like = global_.value(value).node;
  const Shape& shape = global_.value(value).type.shape;
  const op::PiecesAttrs all = exchange_of(value, shape[dim] / std::max<std::int64_t>(blocks, 1));
  const ValueId own = emit("reduce_scatter", {with_first(pieces(value)[0], dim, blocks, like)}, all, like);
  const ValueId back = with_first_back(own, shape, dim, blocks, like);
  rewriter_.to().value(back).layouts = {Layout::split(dim)};
  return {known->second = back};
}

// Piece of the rank along another dimension, or in other blocks: only what a rank does not have yet is sent.
Partitioner::Pieces Partitioner::resplit(ValueId value, int dim, std::int64_t blocks) {
  const auto [known, fresh] = exchanged_.try_emplace({value, dim, blocks}, -1);
  if (!fresh) return {known->second};
  const int from = layout_of(value).dim;
  const op::ResplitAttrs all{.from = from,
                             .to = dim,
                             .size = global_.value(value).type.shape[from],
                             .from_blocks = std::max<std::int64_t>(this->blocks(value), 1),
                             .to_blocks = std::max<std::int64_t>(blocks, 1),
                             .rank = mesh_.first,
                             .ranks = mesh_.parts,
                             .name = Symbol(label_of(value)),
                             .group = mesh_.group};
  const ValueId own = emit("resplit", {pieces(value)[0]}, all, global_.value(value).node);
  rewriter_.to().value(own).layouts = {Layout::split(dim)};
  return {known->second = own};
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
