// State in pieces beside logical shards: their sums go to the ranks that store the pieces, with the bits that every
// rank would have of the whole.
#include <algorithm>

#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/def/attrs/comm.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/attrs/slice.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/sharding/resplit.h"

namespace starling::graph {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Shape with_front(std::int64_t first, const Shape& rest) {
  Shape shape{first};
  for (int d = 0; d < rest.rank(); ++d) shape.push_back(rest[d]);
  return shape;
}

}  // namespace

// Marks of values are along the group that the program has been cut along; of variables it is how they are
// stored.
void Partitioner::forget_marks() {
  for (ValueId id = 0; id < static_cast<ValueId>(global_.values().size()); ++id) {
    Layouts& layouts = global_.value(id).layouts;
    marked_.push_back(layouts);
    const bool stored = mesh_.shards_done && is_op(global_.maker(id), "variable");
    if (!stored) layouts = {};
  }
}

// Nodes that act on pieces element by element are as ever; all others take whole operands: a sum over pieces would
// depend on how many there are.
bool Partitioner::after_shards(NodeId id) {
  if (keep_pieces(id)) return true;
  if (scatters_in_order(id)) return scatter_in_order(id), true;
  const Node& node = global_.node(id);
  if (!node.op->comm && fits_pieces(node, state_)) return false;
  ShardRule whole;
  whole.in.resize(node.in.size());
  whole.out.resize(node.out.size());
  distribute(id, whole);
  return true;
}

// True for a sum of shards of which every rank needs its piece alone.
bool Partitioner::scatters_in_order(NodeId id) const {
  const Node& node = global_.node(id);
  if (!is_op(node, "ordered_sum")) return false;
  const auto& a = node.attrs.as<op::OrderedSumAttrs>();
  const TensorType& type = global_.value(node.out[0]).type;
  const Layout wished = wished_[at(node.out[0])];
  const bool plain =
      a.tensors == 1 && a.order.str() == "shard" && (type.dtype == DType::f32 || type.dtype == DType::f64);
  if (!plain || !wished.is_split(0) || !wished.gathered) return false;
  std::vector<bool> state(global_.values().size());
  state[at(node.out[0])] = true;
  for (const auto& [index, layout] : stored_) {
    for (NodeId read = 0; read < global_.size(); ++read) {
      if (is_op(global_.node(read), "variable") && source_index(global_.node(read)) == index)
        state[at(global_.node(read).out[0])] = true;
    }
  }
  const auto& users = users_[at(node.out[0])];
  return std::all_of(users.begin(), users.end(), [&](NodeId user) { return fits_pieces(global_.node(user), state); });
}

// Every rank gets its rows of all shards, and adds these in their order.
void Partitioner::scatter_in_order(NodeId id) {
  const Node& node = global_.node(id);
  const auto& a = node.attrs.as<op::OrderedSumAttrs>();
  const Shape& shape = shape_of(node.out[0]);
  SmallVector<ValueId, 4> shards;
  for (ValueId in : node.in) shards.push_back(reshaped(pieces(in)[0], with_front(1, shape), id));
  const auto emitted = [&](std::string_view op, std::span<const ValueId> in, const Attrs& attrs) {
    return rewriter_.to().node(rewriter_.emit(find_op(op), in, attrs, id)).out[0];
  };
  const ValueId own = emitted("concat", {shards.data(), shards.size()}, op::AxisAttrs{0});
  const op::ResplitAttrs all{.from = 0,
                             .to = 1,
                             .size = a.shards,
                             .rank = mesh_.first,
                             .ranks = mesh_.parts,
                             .name = a.name,
                             .group = mesh_.group};
  const ValueId rows = emit("resplit", {own}, all, id);
  const Shape piece = local_shape(shape, Layout::split(0), mesh_.first);
  const auto shard = [&](std::int64_t k) {
    return reshaped(emit("slice", {rows}, op::SliceAttrs{.axis = 0, .begin = k, .end = k + 1}, id), piece, id);
  };
  ValueId sum = shard(0);
  for (std::int64_t k = 1; k < a.shards; ++k) sum = emit("add", {sum, shard(k)}, {}, id);
  set(node.out[0], sum, Layout::split(0));
  state_[at(node.out[0])] = true;
}

}  // namespace starling::graph
