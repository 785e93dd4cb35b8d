// Reductions beyond folds: log-sum-exp and norms.
#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor logsumexp(const Tensor& x, const op::ReduceAttrs& attrs) { return apply1(named_op<"logsumexp">(), {x}, attrs); }
Tensor norm(const Tensor& x, const op::NormAttrs& attrs) { return apply1(named_op<"norm">(), {x}, attrs); }

namespace {

TensorType reduced_type(const InferCall& call, const Shape& axes, bool keepdim, DType dtype) {
  const Shape& shape = call.in[0].shape;
  return {dtype, op::reduced_shape(shape, op::reduced_axes(axes, shape.rank(), call.op.name.c_str()), keepdim)};
}

Types infer_logsumexp(const InferCall& call) {
  rules::expect_float(call);
  const auto& attrs = call.attrs.as<op::ReduceAttrs>();
  return {reduced_type(call, attrs.axes, attrs.keepdim, call.in[0].dtype)};
}

Types infer_norm(const InferCall& call) {
  rules::expect_float(call);
  const auto& attrs = call.attrs.as<op::NormAttrs>();
  check(attrs.p > 0, "[norm] expected p > 0, got {}", attrs.p);
  return {reduced_type(call, attrs.axes, attrs.keepdim, call.in[0].dtype)};
}

TensorList grad_logsumexp(const GradCall& c) {
  const Shape& shape = c.in[0].shape();
  const Shape& axes = c.attrs.as<op::ReduceAttrs>().axes;
  const Tensor& y = c.out[0];
  // Where all elements are -inf the gradient is 0; x - y would be NaN.
  const Tensor shift = where(equal(y, full({}, -kInfinity, y.dtype())), full({}, 0, y.dtype()), y);
  return {mul(exp(sub(c.in[0], op::with_lost_dims(shift, shape, axes))), op::with_lost_dims(c.grads[0], shape, axes))};
}

Tensor zero_like(const Tensor& x) { return full({}, 0.0, x.dtype()); }
Tensor one_like(const Tensor& x) { return full({}, 1.0, x.dtype()); }
Tensor sign_of(const Tensor& x) {
  const Tensor one = one_like(x), zero = zero_like(x);
  return sub(where(greater(x, zero), one, zero), where(less(x, zero), one, zero));
}

// sign(x) (|x| / y)^(p - 1) dy: the ratio never overflows. Zeros are kept out of logarithms and quotients, so that
// higher derivatives are finite too.
TensorList grad_norm(const GradCall& c) {
  const auto& attrs = c.attrs.as<op::NormAttrs>();
  const Tensor &x = c.in[0], &y = c.out[0];
  const Shape& shape = x.shape();
  const Tensor dy = op::with_lost_dims(c.grads[0], shape, attrs.axes);
  if (x.numel() == 0) return {broadcast_to(dy, shape)};
  if (attrs.p == 1) return {mul(sign_of(x), dy)};
  const Tensor zero = zero_like(x), one = one_like(x);
  const Tensor sign = sign_of(x), magnitude = mul(x, sign);
  if (std::isinf(attrs.p)) {
    const op::ReduceAttrs reduce{attrs.axes, attrs.keepdim};
    return {mul(sign, apply1(named_op<"max_backward">(), {c.grads[0], magnitude, y}, reduce))};
  }
  const Tensor length = op::with_lost_dims(y, shape, attrs.axes);
  const Tensor flat = equal(length, zero);
  const Tensor safe = where(flat, one, length);
  if (attrs.p == 2) return {mul(x, where(flat, zero, div(dy, safe)))};
  const Tensor none = equal(magnitude, zero);
  const Tensor ratio = div(where(none, one, magnitude), safe);
  const Tensor power = exp(mul(log(ratio), attrs.p - 1));
  return {where(none, zero, mul(mul(sign, power), dy))};
}

// Splits that do not cut a reduction.
ShardRule shard_kept(const ShardCall& call, const Shape& axes, bool keepdim) {
  const Layout from = call.layouts[0];
  if (!from.is_split()) return rules::shard_replicated(call);
  int lost = 0;
  for (auto axis : op::reduced_axes(axes, call.in[0].shape.rank(), call.op.name.c_str())) {
    if (axis == from.dim) return rules::shard_replicated(call);
    lost += !keepdim && axis < from.dim;
  }
  return {{from}, {Layout::split(from.dim - lost)}};
}
ShardRule shard_reduce(const ShardCall& call) {
  const auto& attrs = call.attrs.as<op::ReduceAttrs>();
  return shard_kept(call, attrs.axes, attrs.keepdim);
}
ShardRule shard_norm(const ShardCall& call) {
  const auto& attrs = call.attrs.as<op::NormAttrs>();
  return shard_kept(call, attrs.axes, attrs.keepdim);
}

std::vector<OpCase> float_cases() {
  const auto one = [](Shape shape, op::ReduceAttrs attrs) {
    return OpCase{{{.shape = shape, .distinct = true}}, attrs};
  };
  return {one({7}, {}),
          one({3, 5}, {.axes = {0}}),
          one({3, 5}, {.axes = {1}, .keepdim = true}),
          one({2, 3, 4}, {.axes = {0, 2}}),
          one({2, 3, 4}, {.axes = {-2}}),
          one({}, {}),
          one({3, 37}, {.axes = {-1}}),
          one({5, 33}, {.axes = {0}}),
          one({2, 3, 4, 2}, {.axes = {1, 2}, .keepdim = true}),
          one({0, 3}, {.axes = {0}})};
}

std::vector<OpCase> norm_cases() {
  const auto one = [](Shape shape, op::NormAttrs attrs) { return OpCase{{{.shape = shape, .distinct = true}}, attrs}; };
  return {one({7}, {}),
          one({3, 5}, {.p = 1, .axes = {0}}),
          one({3, 5}, {.p = 3, .axes = {1}, .keepdim = true}),
          one({2, 3, 4}, {.p = 2.5, .axes = {0, 2}}),
          one({2, 3, 5}, {.p = kInfinity, .axes = {-2}}),
          one({}, {.p = 4}),
          one({3, 37}, {.axes = {-1}}),
          one({2, 37}, {.p = kInfinity, .axes = {-1}, .keepdim = true}),
          one({2, 36}, {.p = 1.5, .axes = {-1}}),
          one({5, 33}, {.axes = {0}}),
          one({3, 34}, {.p = 1, .axes = {1}}),
          one({3, 34}, {.p = 3, .axes = {0}}),
          one({2, 3, 4, 2}, {.axes = {1, 2}, .keepdim = true}),
          one({0, 3}, {.axes = {0}})};
}

}  // namespace

void register_ops_norm(OpRegistry& ops) {
  ops.add({.name = "logsumexp",
           .doc = "log Σ eˣ over the given axes, or over all, without overflow.",
           .inputs = {"x"},
           .attrs = &attr_type<op::ReduceAttrs>(),
           .infer = infer_logsumexp,
           .gradient = grad_logsumexp,
           .shard = shard_reduce,
           .cases = float_cases,
           .saves = kSavesAll,
           .cost = costs::each(4),
           .precision = Width::wide});
  ops.add({.name = "norm",
           .doc = "(Σ |x|ᵖ)^(1/p) over the given axes, or over all; the largest |x| for p = inf.",
           .inputs = {"x"},
           .attrs = &attr_type<op::NormAttrs>(),
           .infer = infer_norm,
           .gradient = grad_norm,
           .shard = shard_norm,
           .cases = norm_cases,
           .saves = kSavesAll,
           .cost = costs::each(2),
           .precision = Width::wide});
}

}  // namespace starling
