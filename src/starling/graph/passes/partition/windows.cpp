// Ops that look through windows at pictures whose rows are split: every rank gets the rows at the borders that its own
// windows need (ops/def/sharding/halo.h) and computes those, without padding along that dimension. Gradients for rows
// of others go back to them.
#include <algorithm>

#include "starling/graph/passes/partition/partitioner.h"
#include "starling/graph/passes/partition/window_geometry.h"
#include "starling/ops/def/attrs/pad.h"
#include "starling/ops/def/attrs/slice.h"

namespace starling::graph {
namespace {

// True if every rank has all rows that its windows look at.
bool sees_its_own(const op::HaloAttrs& a) {
  for (std::int64_t rank = 0; rank < a.ranks; ++rank) {
    if (op::rows_shared(a, rank, rank).size != op::rows_seen(a, rank).size) return false;
  }
  return true;
}

}  // namespace

// True if the node looks through windows at rows that are split, and was cut here.
bool Partitioner::look_through_windows(NodeId id) {
  if (mesh_.count != 1 || mesh_.ordered || global_.node(id).out.empty()) return false;
  return convolve_rows(id) || place_rows(id) || pool_rows(id);
}

Piece Partitioner::own_piece(std::int64_t size) const { return piece_of(size, mesh_.first, mesh_.parts); }

bool Partitioner::has_split_rows(ValueId value) const {
  const auto at = static_cast<std::size_t>(value);
  return layouts_[at] == kRows && blocks_[at] == 0 && !state_[at];
}

// The windows of all ranks over a picture; nothing if some rank would have none of them, or no rows.
std::optional<op::HaloAttrs> Partitioner::windows_over(ValueId named, const Shape& picture, std::int64_t count,
                                                       op::HaloAttrs windows) const {
  if (picture[kHeight] < mesh_.parts || count < mesh_.parts) return std::nullopt;
  windows.dim = kHeight;
  windows.size = picture[kHeight];
  windows.windows = count;
  windows.rank = mesh_.first;
  windows.ranks = mesh_.parts;
  windows.name = Symbol(label_of(named));
  windows.group = mesh_.group;
  return windows;
}

// Of a value that has some rows of a picture others, all of which it has; and the value among zeros for others.
ValueId Partitioner::taken_rows(ValueId value, const Piece& has, const Piece& wanted) {
  if (has.size == wanted.size) return value;
  const std::int64_t begin = wanted.begin - has.begin;
  return emit("slice", {value}, op::SliceAttrs{kHeight, begin, begin + wanted.size}, now_);
}
ValueId Partitioner::laid_rows(ValueId value, const Piece& has, const Piece& wanted) {
  if (has.size == wanted.size) return value;
  Shape shape = rewriter_.to().value(value).type.shape;
  shape[kHeight] = wanted.size;
  const std::int64_t begin = has.begin - wanted.begin;
  return emit("slice_backward", {value}, op::SliceBackwardAttrs{shape, kHeight, begin, begin + has.size, 1}, now_);
}

// The rows of a value that this rank's windows look at; they are exchanged once for all nodes with the same windows.
ValueId Partitioner::with_borders(ValueId value, const op::HaloAttrs& windows) {
  const ValueId own = as(value, kRows, 0)[0];
  const auto key = std::tuple(value, windows.windows, windows.stride, windows.before, windows.extent, windows.fill);
  const auto [known, fresh] = borders_.try_emplace(key, -1);
  if (!fresh) return known->second;
  const Pieces& all = whole_[static_cast<std::size_t>(value)];
  if (!all.empty()) return known->second = rows_of_whole(all[0], windows);
  const std::int64_t rank = windows.rank;
  return known->second = sees_its_own(windows)
                             ? taken_rows(own, op::rows_stored(windows, rank), op::rows_seen(windows, rank))
                             : emit("halo", {own}, windows, now_);
}

// The same of a picture that is here: nothing is exchanged.
ValueId Partitioner::rows_of_whole(ValueId picture, const op::HaloAttrs& windows) {
  const Piece all{0, windows.size}, seen = op::rows_seen(windows, windows.rank);
  const std::int64_t begin = std::clamp<std::int64_t>(seen.begin, 0, all.size);
  const std::int64_t end = std::clamp<std::int64_t>(seen.begin + seen.size, begin, all.size);
  const ValueId inside = taken_rows(picture, all, {begin, end - begin});
  if (end - begin == seen.size) return inside;
  op::PadAttrs around{.value = windows.fill};
  around.before = around.after = Shape::filled(rewriter_.to().value(picture).type.shape.rank(), 0);
  around.before[kHeight] = begin - seen.begin;
  around.after[kHeight] = seen.begin + seen.size - end;
  return emit("pad", {inside}, around, now_);
}

// Rows of a gradient that this rank's windows made, added to those of their owners.
ValueId Partitioner::to_owners(ValueId made, const op::HaloAttrs& windows) {
  const std::int64_t rank = windows.rank;
  if (!sees_its_own(windows)) return emit("halo_add", {made}, windows, now_);
  return laid_rows(made, op::rows_seen(windows, rank), op::rows_stored(windows, rank));
}

// Shape of a picture with the rows that this rank's windows look at.
Shape Partitioner::seen_shape(Shape picture, const op::HaloAttrs& windows) const {
  picture[kHeight] = op::rows_seen(windows, windows.rank).size;
  return picture;
}

// Pictures of inputs begin with the rows of this rank; who needs all of them has them already.
bool Partitioner::take_rows(ValueId input, ValueId given) {
  const Shape& shape = shape_of(input);
  if (!mesh_.height || shape.rank() < 4 || shape[kHeight] < mesh_.parts) return false;
  pieces(input) = cut(given, shape, kHeight, 0, global_.value(input).node);
  whole_[static_cast<std::size_t>(input)] = {given};
  layout_of(input) = kRows;
  return true;
}

}  // namespace starling::graph
