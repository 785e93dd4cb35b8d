#include "starling/ops/api/pad.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/dtype_limits.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor pad(const Tensor& x, const op::PadAttrs& attrs) { return apply1(named_op<"pad">(), {x}, attrs); }

namespace {

std::int64_t at(const Shape& amounts, int axis) { return amounts.empty() ? 0 : amounts[axis]; }

bool is_reflect(const op::PadAttrs& a) { return a.mode.str() == "reflect"; }
bool is_edge(const op::PadAttrs& a) { return a.mode.str() == "edge"; }

// Limit of padding on one side: sums of three such stay far from overflow.
constexpr std::int64_t kMostPadding = std::int64_t{1} << 48;

Types infer_pad(const InferCall& call) {
  const auto& a = call.attrs.as<op::PadAttrs>();
  Shape shape = call.in[0].shape;
  check(is_reflect(a) || is_edge(a) || a.mode.str() == "constant",
        "[pad] expected mode constant, reflect or edge, got '{}'", a.mode.str());
  for (const Shape& amounts : {a.before, a.after}) {
    check(amounts.empty() || amounts.rank() == shape.rank(), "[pad] expected {} amounts, got {}", shape.rank(),
          to_string(amounts));
    for (auto n : amounts) {
      check(n >= 0 && n <= kMostPadding, "[pad] expected amounts of at least 0 that can be addressed, got {}",
            to_string(amounts));
    }
  }
  for (int i = 0; i < shape.rank(); ++i) {
    const auto before = at(a.before, i), after = at(a.after, i), most = std::max(before, after);
    check(!is_reflect(a) || most == 0 || most < shape[i],
          "[pad] expected to reflect fewer elements than the {} of axis {}, got {} and {}", shape[i], i, before, after);
    check(!is_edge(a) || most == 0 || shape[i] > 0, "[pad] expected elements along axis {} to repeat, got {}", i,
          to_string(call.in[0]));
    shape[i] += before + after;
  }
  check(holds(call.in[0].dtype, a.value), "[pad] expected a value that {} holds, got {}", name(call.in[0].dtype),
        a.value);
  return {TensorType{call.in[0].dtype, shape}};
}

// `part` placed into zeros of `size` elements along an axis, from `begin` on.
Tensor laid(const Tensor& part, int axis, std::int64_t begin, std::int64_t size) {
  Shape whole = part.shape();
  whole[axis] = size;
  return apply1(named_op<"slice_backward">(), {part},
                op::SliceBackwardAttrs{whole, axis, begin, begin + part.shape()[axis], 1});
}

// Gradient along one axis: the padding's gradient is added to the elements it was read from.
Tensor folded(const Tensor& dy, const op::PadAttrs& a, int axis, std::int64_t size) {
  Tensor dx = narrow(dy, axis, at(a.before, axis), size);
  if (!is_reflect(a) && !is_edge(a)) return dx;
  for (const op::PadRun& run : op::pad_runs(a, axis, size)) {
    if (run.count == 0 || run.step == 1) continue;
    const Tensor outside = narrow(dy, axis, run.begin, run.count);
    if (is_edge(a)) {
      dx = add(dx, laid(sum(outside, {.axes = {axis}, .keepdim = true}), axis, run.source, size));
    } else {
      const Tensor turned = slice(outside, {.axis = axis, .begin = kToEnd, .end = kToEnd, .step = -1});
      dx = add(dx, laid(turned, axis, run.source - run.count + 1, size));
    }
  }
  return dx;
}

TensorList grad_pad(const GradCall& c) {
  const auto& a = c.attrs.as<op::PadAttrs>();
  Tensor dx = c.grads[0];
  for (int i = 0; i < c.in[0].rank(); ++i) {
    if (at(a.before, i) > 0 || at(a.after, i) > 0) dx = folded(dx, a, i, c.in[0].shape()[i]);
  }
  return {dx};
}

// An axis without padding may stay split.
ShardRule shard_pad(const ShardCall& call) {
  const auto& a = call.attrs.as<op::PadAttrs>();
  const Layout from = call.layouts[0];
  if (!from.is_split() || at(a.before, from.dim) > 0 || at(a.after, from.dim) > 0) return rules::shard_replicated(call);
  return {{from}, {from}};
}

std::vector<OpCase> pad_cases() {
  const auto one = [](Shape shape, op::PadAttrs attrs) { return OpCase{{{.shape = shape}}, attrs}; };
  const Symbol reflect("reflect"), edge("edge");
  return {one({4}, {.before = {1}, .after = {2}}),
          one({2, 3}, {.before = {0, 1}, .after = {2, 0}, .value = 1.5}),
          one({2, 3, 4}, {.before = {0, 1, 2}}),
          one({4}, {.before = {3}, .after = {2}, .mode = reflect}),
          one({2, 3, 3}, {.before = {0, 2, 1}, .after = {0, 1, 2}, .mode = reflect}),
          one({3}, {.before = {2}, .after = {4}, .mode = edge}),
          one({2, 2, 3}, {.before = {1, 0, 2}, .after = {0, 2, 1}, .mode = edge}),
          one({0, 2}, {.before = {1, 0}, .after = {1, 1}, .value = -3}),
          one({}, {}),
          one({3, 19}, {.after = {1, 4}}),
          one({3, 19}, {.before = {1, 4}, .after = {0, 18}, .mode = reflect}),
          one({0, 3}, {.before = {0, 1}, .mode = edge})};
}

}  // namespace

std::array<op::PadRun, 3> op::pad_runs(const op::PadAttrs& a, int axis, std::int64_t size) {
  const std::int64_t before = at(a.before, axis), after = at(a.after, axis);
  std::array<op::PadRun, 3> runs{op::PadRun{0, before, 0, 0}, op::PadRun{before, size, 0, 1},
                                 op::PadRun{before + size, after, std::max<std::int64_t>(size - 1, 0), 0}};
  if (is_reflect(a)) {
    runs[0].source = before;
    runs[2].source = std::max<std::int64_t>(size - 2, 0);
    runs[0].step = runs[2].step = -1;
  }
  runs[0].constant = runs[2].constant = !is_reflect(a) && !is_edge(a);
  return runs;
}

void register_ops_pad(OpRegistry& ops) {
  ops.add({.name = "pad",
           .doc = "More elements before and after along each axis: a constant, a reflection or the edge repeated.",
           .inputs = {"x"},
           .attrs = &attr_type<op::PadAttrs>(),
           .infer = infer_pad,
           .gradient = grad_pad,
           .shard = shard_pad,
           .cases = pad_cases,
           .saves = kSavesNothing,
           .cost = costs::moves(),
           .precision = Width::as_given});
}

}  // namespace starling
