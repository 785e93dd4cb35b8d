#include "starling/ops/api/reduce.h"

#include <algorithm>

#include "starling/graph/passes/simplify/rules.h"

namespace starling::graph {
namespace {

Shape axes_of(const Node& node, int rank) {
  return op::reduced_axes(node.attrs.as<op::ReduceAttrs>().axes, rank, node.op->name.c_str());
}

bool contains(const Shape& axes, std::int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

// Reductions over axes of size 1 do nothing, except that sums change the dtype of integers and booleans.
ValueId over_ones(Site& site) {
  const TensorType& x = site.type(site.in(0));
  if (x.dtype != site.out().dtype || x.shape.numel() != site.out().shape.numel() || x.shape.numel() == 0)
    return kNoRewrite;
  return site.shaped(site.in(0), site.out().shape);
}

// Nested reductions of the same kind become one over all axes.
ValueId join_reductions(Site& site) {
  const Node& inner = site.maker_of(0);
  if (inner.op != site.node().op || !inner.after.empty() || !site.dies(0)) return kNoRewrite;
  const ValueId from = inner.in[0];
  const int rank = site.type(from).shape.rank();
  const bool kept = inner.attrs.as<op::ReduceAttrs>().keepdim;
  Shape axes = axes_of(inner, rank), places;  // origin of each remaining axis
  for (int i = 0; i < rank; ++i) {
    if (kept || !contains(axes, i)) places.push_back(i);
  }
  for (auto axis : axes_of(site.node(), places.rank())) {
    const auto from_axis = places[static_cast<int>(axis)];
    if (!contains(axes, from_axis)) axes.push_back(from_axis);
  }
  std::sort(&axes[0], &axes[0] + axes.rank());
  const ValueId all = site.emit(*site.node().op, {&from, 1}, op::ReduceAttrs{axes, true});
  return site.shaped(all, site.out().shape);
}

// Reduction of a broadcast: Σ of a value repeated n times is n · Σ; max, min and mean take it once.
ValueId of_broadcast(Site& site) {
  const Node& inner = site.maker_of(0);
  if (!is_op(inner, "broadcast_to") || !inner.after.empty()) return kNoRewrite;
  if (!is_float(site.out().dtype) || is_half(site.out().dtype)) return kNoRewrite;
  const ValueId from = inner.in[0];
  const Shape wide = site.type(site.in(0)).shape, narrow = site.type(from).shape;
  const int extra = wide.rank() - narrow.rank();
  Shape lined = Shape::filled(extra, 1);  // operand aligned with all axes of the result
  for (auto size : narrow) lined.push_back(size);
  Shape still = lined;
  double times = 1;
  for (auto axis : axes_of(site.node(), wide.rank())) {
    const int i = static_cast<int>(axis);
    if (wide[i] == 0) return kNoRewrite;
    if (lined[i] == 1 && wide[i] > 1) times *= static_cast<double>(wide[i]);
  }
  if (times == 1) return kNoRewrite;
  for (int i = 0; i < wide.rank(); ++i) {
    if (!contains(axes_of(site.node(), wide.rank()), i)) still[i] = wide[i];
  }
  const bool is_sum = is_op(site.node(), "sum");
  const ValueId spread = site.spread(site.shaped(from, lined), still);
  const ValueId reduced = site.emit(*site.node().op, {&spread, 1}, site.node().attrs);
  return is_sum ? site.emit("mul", {reduced, site.scalar(times, site.out().dtype)}) : reduced;
}

constexpr SimplifyRule kRules[] = {
    {"sum", "sum over ones", over_ones},
    {"sum", "sum(sum(x))", join_reductions},
    {"sum", "sum(broadcast_to(x))", of_broadcast},
    {"mean", "mean over ones", over_ones},
    {"mean", "mean(broadcast_to(x))", of_broadcast},
    {"max", "max over ones", over_ones},
    {"max", "max(max(x))", join_reductions},
    {"max", "max(broadcast_to(x))", of_broadcast},
    {"min", "min over ones", over_ones},
    {"min", "min(min(x))", join_reductions},
    {"min", "min(broadcast_to(x))", of_broadcast},
};

}  // namespace

std::span<const SimplifyRule> reduce_rules() { return kRules; }

}  // namespace starling::graph
