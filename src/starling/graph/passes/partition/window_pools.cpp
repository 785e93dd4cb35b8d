// Pools of pictures whose rows are split, and their gradients.
#include <algorithm>
#include <limits>
#include <vector>

#include "starling/graph/passes/partition/partitioner.h"
#include "starling/graph/passes/partition/window_geometry.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/attrs/local_norm.h"
#include "starling/ops/def/attrs/pool.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/pool_geometry.h"

namespace starling::graph {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// Of windows [begin, begin + count): the elements that a window has over those that its mean counts, where that is not
// so for all alike: means over the elements of the picture alone where windows look beyond it, and last windows that
// are cut off. Empty: it is.
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

}  // namespace

bool Partitioner::pool_rows(NodeId id) {
  const Node& node = global_.node(id);
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

// Windows that are weighted by what of them lies in the picture: rows outside are taken away before, and those of
// others after.
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

}  // namespace starling::graph
