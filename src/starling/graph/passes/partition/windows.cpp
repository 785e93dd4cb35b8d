// Ops that look through windows at pictures whose rows are split: every rank gets the rows at the borders that its own
// windows need (ops/def/halo.h) and computes those, without padding along that dimension. Gradients for rows of others
// go back to them.
#include <algorithm>
#include <limits>
#include <optional>

#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/conv.h"
#include "starling/ops/def/creation.h"
#include "starling/ops/def/local_conv.h"
#include "starling/ops/def/local_norm.h"
#include "starling/ops/def/pad.h"
#include "starling/ops/def/pool.h"
#include "starling/ops/def/pool_geometry.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/shape_ops.h"
#include "starling/ops/def/slice.h"
#include "starling/ops/def/unfold.h"

namespace starling::graph {
namespace {

constexpr int kHeight = 2;  // dimension of rows in [n, c, rows, …]
const Layout kRows = Layout::split(kHeight);
constexpr double kLowest = -std::numeric_limits<double>::infinity();

// Attributes of a convolution or a pooling without padding of rows. Lists of pools have a number for each dimension, or
// one for all.
template <class A>
A without_padding(A a, int rank) {
  if constexpr (requires { a.padding; }) {
    if constexpr (std::is_same_v<decltype(a.padding), Shape>) {
      while (a.padding.rank() < rank - kHeight) a.padding.push_back(a.padding[0]);
    }
    a.padding[0] = 0;
  }
  return a;
}

template <class A>
op::HaloAttrs windows_of_conv(const A& a, const Shape& weight) {
  return {.stride = a.stride[0], .before = a.padding[0], .extent = a.dilation[0] * (weight[kHeight] - 1) + 1};
}

template <class A>
op::HaloAttrs windows_of_pool(const A& a) {
  op::HaloAttrs windows{.stride = a.stride.empty() ? a.kernel[0] : a.stride[0], .extent = a.kernel[0]};
  if constexpr (requires { a.padding; }) windows.before = a.padding[0];
  if constexpr (requires { a.dilation; }) windows.extent = a.dilation[0] * (a.kernel[0] - 1) + 1;
  return windows;
}

// Of windows [begin, begin + count): the elements that a window has over those that its mean counts, where that is not
// so for all alike: means over the elements of the picture alone where windows look beyond it, and last windows that are
// cut off. Empty: it is.
template <class A>
std::vector<double> uncounted(const A& a, std::int64_t size, std::int64_t all, const Piece& windows) {
  const op::HaloAttrs w = windows_of_pool(a);
  const bool alike = (a.count_include_pad || w.before == 0) && (all - 1) * w.stride + w.extent <= size + 2 * w.before;
  std::vector<double> ratios;
  if (a.divisor > 0 || alike) return ratios;
  const PoolAxis axis{.in = size, .out = all, .kernel = w.extent, .stride = w.stride, .padding = w.before};
  for (std::int64_t i = windows.begin; i < windows.begin + windows.size; ++i)
    ratios.push_back(static_cast<double>(w.extent) / static_cast<double>(axis.counted(i, a.count_include_pad)));
  return ratios;
}

bool is_one_of(const Node& node, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return is_op(node, name); });
}

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
  const Node& node = global_.node(id);
  if (mesh_.count != 1 || mesh_.ordered || node.out.empty()) return false;
  if (is_op(node, "conv2d")) return convolve<op::Conv2dAttrs>(id);
  if (is_op(node, "conv3d")) return convolve<op::Conv3dAttrs>(id);
  if (is_op(node, "conv2d_backward_weight")) return convolve_for_weight<op::Conv2dGradAttrs>(id);
  if (is_op(node, "conv3d_backward_weight")) return convolve_for_weight<op::Conv3dGradAttrs>(id);
  if (is_op(node, "conv2d_backward_input")) return convolve_back<op::Conv2dGradAttrs>(id);
  if (is_op(node, "conv3d_backward_input")) return convolve_back<op::Conv3dGradAttrs>(id);
  if (is_op(node, "local_conv2d")) return convolve_locally(id);
  if (is_op(node, "reshape")) return merge_rows(id);
  if (is_op(node, "unfold")) return unfold_rows(id);
  if (is_op(node, "fold")) return fold_rows(id);
  if (is_op(node, "gaussian_mean")) return blur(id);
  if (is_op(node, "gaussian_mean_backward")) return blur_back(id);
  if (is_one_of(node, {"max_pool2d", "max_pool3d", "max_pool2d_values", "max_pool3d_values"})) return pool_largest(id);
  if (is_op(node, "max_pool_backward")) return pool_largest_back(id);
  if (is_one_of(node, {"avg_pool2d", "avg_pool3d"})) return pool_means<op::AvgPoolAttrs>(id);
  if (is_one_of(node, {"lp_pool2d", "lp_pool3d"})) return pool_means<op::LpPoolAttrs>(id);
  if (is_op(node, "avg_pool_backward")) return pool_means_back(id);
  if (is_one_of(node, {"global_avg_pool", "adaptive_avg_pool2d", "adaptive_avg_pool3d"})) return pool_all(id);
  return is_op(node, "adaptive_avg_pool_backward") && pool_all_back(id);
}

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

template <class A>
bool Partitioner::convolve_back(NodeId id) {
  const Node& node = global_.node(id);
  A a = node.attrs.as<A>();
  const Shape& dy = shape_of(node.in[0]);
  const auto windows = windows_over(node.out[0], a.shape, dy[kHeight], windows_of_conv(a, shape_of(node.in[1])));
  if (!windows || !has_split_rows(node.in[0])) return false;
  a.shape = seen_shape(a.shape, *windows);
  const ValueId weight = whole(node.in[1]);
  const ValueId made = emit(node.op->name, {pieces(node.in[0])[0], weight}, without_padding(a, dy.rank()), id);
  set(node.out[0], to_owners(made, *windows), kRows);
  return true;
}

// Positions of windows, all columns of one row after the other, are split by themselves where weights or columns have one
// for each: a rank's piece may begin and end within a row. These are the positions of its rows.
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
  if (fresh) known->second = emit("halo", {own}, positions_of_rows(value, dim, rows, shape_of(value)[dim] / rows), now_);
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

// Windows that are weighted by what of them lies in the picture: rows outside are taken away before, and those of others
// after.
template <class A>
std::optional<Partitioner::Blurred> Partitioner::blurred(ValueId named, const Shape& picture, const A& a) const {
  const op::HaloAttrs around{.stride = 1, .before = a.size / 2, .extent = a.size};
  const auto windows = windows_over(named, picture, picture[kHeight], around);
  if (!windows) return std::nullopt;
  const Piece seen = op::rows_seen(*windows, mesh_.first);
  const std::int64_t begin = std::max<std::int64_t>(seen.begin, 0);
  return Blurred{*windows, seen, {begin, std::min(seen.begin + seen.size, picture[kHeight]) - begin}};
}

bool Partitioner::blur(NodeId id) {
  const Node& node = global_.node(id);
  const auto found = blurred(node.in[0], shape_of(node.in[0]), node.attrs.as<op::GaussianMeanAttrs>());
  if (!found || !has_split_rows(node.in[0])) return false;
  const auto& [windows, seen, inside] = *found;
  const ValueId rows = taken_rows(with_borders(node.in[0], windows), seen, inside);
  const ValueId made = emit(node.op->name, {rows}, node.attrs, id);
  set(node.out[0], taken_rows(made, inside, op::rows_stored(windows, mesh_.first)), kRows);
  return true;
}

bool Partitioner::blur_back(NodeId id) {
  const Node& node = global_.node(id);
  auto a = node.attrs.as<op::GaussianMeanGradAttrs>();
  const auto found = blurred(node.out[0], a.shape, a);
  if (!found || !has_split_rows(node.in[0])) return false;
  const auto& [windows, seen, inside] = *found;
  a.shape[kHeight] = inside.size;
  const ValueId rows = laid_rows(pieces(node.in[0])[0], op::rows_stored(windows, mesh_.first), inside);
  set(node.out[0], to_owners(laid_rows(emit(node.op->name, {rows}, a, id), inside, seen), windows), kRows);
  return true;
}

// Places of the largest elements are counted in the rows that a rank looks at, and told in those of the picture.
bool Partitioner::pool_largest(NodeId id) {
  const Node& node = global_.node(id);
  const auto& a = node.attrs.as<op::MaxPoolAttrs>();
  const Shape &x = shape_of(node.in[0]), &y = shape_of(node.out[0]);
  auto windows = windows_over(node.in[0], x, y[kHeight], windows_of_pool(a));
  if (!windows || !has_split_rows(node.in[0])) return false;
  windows->fill = kLowest;
  const ValueId seen = with_borders(node.in[0], *windows);
  const NodeId made = rewriter_.emit(*node.op, {&seen, 1}, without_padding(a, x.rank()), id);
  set(node.out[0], rewriter_.to().node(made).out[0], kRows);
  if (node.out.size() < 2) return true;
  set(node.out[1], moved_down(rewriter_.to().node(made).out[1], x, op::rows_seen(*windows, mesh_.first).begin), kRows);
  windows_of_places_[node.out[1]] = *windows;
  return true;
}

// Places in a picture of these rows that begins so many rows below another one, in that one.
ValueId Partitioner::moved_down(ValueId places, const Shape& picture, std::int64_t rows) {
  std::int64_t row = 1;
  for (int d = kHeight + 1; d < picture.rank(); ++d) row *= picture[d];
  const op::FullAttrs begin{.value = static_cast<double>(rows * row), .dtype = rewriter_.to().value(places).type.dtype};
  return rows == 0 ? places : emit("add", {places, emit("full", {}, begin, now_)}, {}, now_);
}

bool Partitioner::pool_largest_back(NodeId id) {
  const Node& node = global_.node(id);
  const auto known = windows_of_places_.find(node.in[1]);
  if (known == windows_of_places_.end()) return false;
  const op::HaloAttrs& windows = known->second;
  const Shape& x = node.attrs.as<op::ShapeAttrs>().shape;
  const ValueId own = as(node.in[0], kRows, 0)[0], places = as(node.in[1], kRows, 0)[0];
  const ValueId here = moved_down(places, x, -op::rows_seen(windows, mesh_.first).begin);
  const ValueId made = emit(node.op->name, {own, here}, op::ShapeAttrs{seen_shape(x, windows)}, id);
  set(node.out[0], to_owners(made, windows), kRows);
  return true;
}

// Means and norms of windows: zeros beyond the picture count as they do in the padding.
template <class A>
bool Partitioner::pool_means(NodeId id) {
  const Node& node = global_.node(id);
  const auto& a = node.attrs.as<A>();
  const Shape& x = shape_of(node.in[0]);
  const std::int64_t count = shape_of(node.out[0])[kHeight];
  const auto windows = windows_over(node.in[0], x, count, windows_of_pool(a));
  if (!windows || !has_split_rows(node.in[0])) return false;
  const ValueId seen = with_borders(node.in[0], *windows);
  ValueId made = emit(node.op->name, {seen}, without_padding(a, x.rank()), id);
  if constexpr (requires { a.divisor; }) made = times_rows(made, uncounted(a, x[kHeight], count, own_piece(count)));
  set(node.out[0], made, kRows);
  return true;
}

bool Partitioner::pool_means_back(NodeId id) {
  const Node& node = global_.node(id);
  auto a = node.attrs.as<op::AvgPoolGradAttrs>();
  if (a.shape.rank() <= kHeight) return false;
  const std::int64_t count = shape_of(node.in[0])[kHeight];
  const auto windows = windows_over(node.out[0], a.shape, count, windows_of_pool(a));
  if (!windows || !has_split_rows(node.in[0])) return false;
  const ValueId dy = times_rows(pieces(node.in[0])[0], uncounted(a, a.shape[kHeight], count, own_piece(count)));
  a.shape = seen_shape(a.shape, *windows);
  set(node.out[0], to_owners(emit(node.op->name, {dy}, without_padding(a, a.shape.rank()), id), *windows), kRows);
  return true;
}

Piece Partitioner::own_piece(std::int64_t size) const { return piece_of(size, mesh_.first, mesh_.parts); }

// Rows of a value by a factor each; without factors the value.
ValueId Partitioner::times_rows(ValueId value, const std::vector<double>& factors) {
  if (factors.empty()) return value;
  const TensorType& type = rewriter_.to().value(value).type;
  Shape column = Shape::filled(type.shape.rank(), 1);
  column[kHeight] = static_cast<std::int64_t>(factors.size());
  const ValueId by = rewriter_.to().add_constant(from_doubles(factors, column, type.dtype));
  return emit("mul", {value, by}, {}, now_);
}

// Share of the rows of a picture that this rank has.
double Partitioner::share_of_rows(const Shape& picture) const {
  return static_cast<double>(own_piece(picture[kHeight]).size) / static_cast<double>(picture[kHeight]);
}

// One mean for all rows: every rank has that of its own ones, which counts as much as there are.
bool Partitioner::pool_all(NodeId id) {
  const Node& node = global_.node(id);
  const Shape &x = shape_of(node.in[0]), &y = shape_of(node.out[0]);
  if (!has_split_rows(node.in[0]) || x[kHeight] < mesh_.parts || (y.rank() > kHeight && y[kHeight] != 1)) return false;
  const ValueId own = emit(node.op->name, {pieces(node.in[0])[0]}, node.attrs, id);
  set(node.out[0], times(own, share_of_rows(x), id), Layout::partial());
  return true;
}

bool Partitioner::pool_all_back(NodeId id) {
  const Node& node = global_.node(id);
  const Shape x = node.attrs.as<op::ShapeAttrs>().shape, &dy = shape_of(node.in[0]);
  if (!mesh_.height || x[kHeight] < mesh_.parts || dy[kHeight] != 1) return false;
  const Shape own = local_shape(x, kRows, mesh_.first);
  const ValueId made = emit(node.op->name, {whole(node.in[0])}, op::ShapeAttrs{own}, id);
  set(node.out[0], times(made, share_of_rows(x), id), kRows);
  return true;
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
