#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/local_norm.h"
#include "starling/ops/api/pool.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor local_response_norm(const Tensor& x, const op::LocalResponseNormAttrs& attrs) {
  return apply1(named_op<"local_response_norm">(), {x}, attrs);
}
Tensor op::channel_window_sum(const Tensor& x, const op::ChannelWindowAttrs& attrs) {
  return apply1(named_op<"channel_window_sum">(), {x}, attrs);
}

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 31;

void check_channels(const InferCall& call) {
  rules::expect_float(call);
  const Shape& x = call.in[0].shape;
  check(x.rank() >= 2, "[{}] expected x [n, c, …], got {}", call.op.name, to_string(x));
}

Types infer_norm(const InferCall& call) {
  check_channels(call);
  const auto& a = call.attrs.as<op::LocalResponseNormAttrs>();
  check(a.size >= 1 && a.size < kMost, "[{}] expected a size of at least 1, got {}", call.op.name, a.size);
  check(a.alpha >= 0 && std::isfinite(a.alpha) && a.k > 0 && std::isfinite(a.k) && a.beta >= 0 && a.beta <= 100,
        "[{}] expected alpha ≥ 0, k > 0 and beta in [0, 100], got {}, {} and {}", call.op.name, a.alpha, a.k, a.beta);
  return {call.in[0]};
}

Types infer_backward(const InferCall& call) {
  rules::expect_same_dtype(call);
  check(call.in[0].shape == call.in[1].shape, "[{}] expected dy and x of one shape, got {} and {}", call.op.name,
        to_string(call.in[0]), to_string(call.in[1]));
  return infer_norm(call);
}

Types infer_sum(const InferCall& call) {
  check_channels(call);
  const auto& a = call.attrs.as<op::ChannelWindowAttrs>();
  check(a.before >= 0 && a.before < kMost && a.after >= 0 && a.after < kMost,
        "[{}] expected numbers of channels of at least 0, got {} before and {} after", call.op.name, a.before, a.after);
  return {call.in[0]};
}

// Window sum that a norm divides by, and its transpose.
op::ChannelWindowAttrs window(const op::LocalResponseNormAttrs& a) { return {a.size / 2, (a.size - 1) / 2}; }
op::ChannelWindowAttrs mirrored(const op::ChannelWindowAttrs& a) { return {a.after, a.before}; }

// Second derivative. The backward is F = Σ dy (g s^-b - c x s^(-b-1) T) differentiated by g's tensor, with s the base
// of the power, T the window sum of x g, c = 2 b alpha / size; its derivatives by dy and x follow by the same rules.
TensorList backward_gradient(const GradCall& call) {
  const auto& a = call.attrs.as<op::LocalResponseNormAttrs>();
  const Tensor &g = call.grads[0], &dy = call.in[0], &x = call.in[1];
  const double rate = a.alpha / static_cast<double>(a.size), c = 2 * a.beta * rate;
  const op::ChannelWindowAttrs w = window(a), back = mirrored(w);
  const Tensor s = add(mul(op::channel_window_sum(mul(x, x), w), rate), a.k);
  const Tensor p1 = op::abs_pow(s, -a.beta - 1);
  const Tensor t = op::channel_window_sum(mul(x, g), w);
  Tensor by_dy, by_x;
  if (call.needs(0)) by_dy = sub(mul(g, op::abs_pow(s, -a.beta)), mul(mul(mul(x, p1), t), c));
  if (call.needs(1)) {
    const Tensor inner =
        sub(mul(mul(mul(x, t), op::abs_pow(s, -a.beta - 2)), c * (a.beta + 1)), mul(mul(g, p1), a.beta));
    const Tensor through_s = mul(mul(x, op::channel_window_sum(mul(dy, inner), back)), 2 * rate);
    const Tensor own = mul(mul(mul(dy, p1), t), c);
    const Tensor through_t = mul(mul(g, op::channel_window_sum(mul(mul(dy, x), p1), back)), c);
    by_x = sub(sub(through_s, own), through_t);
  }
  return {by_dy, by_x};
}

std::vector<OpCase> norm_cases(std::size_t operands) {
  const auto one = [&](Shape x, op::LocalResponseNormAttrs a) {
    return OpCase{std::vector<CaseInput>(operands, {.shape = x}), a};
  };
  return {one({2, 6, 3}, {5, 0.5}),
          one({1, 7, 2, 2}, {3, 1, 0.5, 2}),
          one({1, 5, 20}, {4, 0.7, 0.75, 1.5}),
          one({3, 4}, {1, 0.3}),
          one({0, 4, 2}, {}),
          one({1, 3, 2, 2, 2}, {9, 2, 1, 1}),
          one({1, 2, 33}, {5, 0.5}),
          one({2, 8, 1}, {2, 1, 2, 0.8})};
}

std::vector<OpCase> sum_cases() {
  const auto one = [](Shape x, op::ChannelWindowAttrs a) { return OpCase{{{.shape = x}}, a}; };
  return {one({2, 6, 3}, {2, 2}), one({1, 7, 2, 2}, {1, 0}),      one({1, 5, 20}, {0, 2}), one({3, 4}, {0, 0}),
          one({0, 4, 2}, {1, 1}), one({1, 3, 2, 2, 2}, {100, 1}), one({1, 2, 33}, {1, 1}), one({2, 8, 1}, {3, 5})};
}

}  // namespace

void register_ops_local_response_norm(OpRegistry& ops) {
  const auto by_sample = [](const ShardCall& call) { return rules::shard_batch(call, 0b11); };
  ops.add({.name = "local_response_norm",
           .doc = "x / (k + alpha / size · Σ x²)^beta, the sum over neighbouring channels.",
           .inputs = {"x"},
           .attrs = &attr_type<op::LocalResponseNormAttrs>(),
           .infer = infer_norm,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{apply1(named_op<"local_response_norm_backward">(), {c.grads[0], c.in[0]}, c.attrs)};
               },
           .shard = by_sample,
           .cases = [] { return norm_cases(1); },
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "local_response_norm_backward",
           .doc = "The gradient of local_response_norm.",
           .inputs = {"dy", "x"},
           .outputs = {"dx"},
           .attrs = &attr_type<op::LocalResponseNormAttrs>(),
           .infer = infer_backward,
           .gradient = backward_gradient,
           .shard = by_sample,
           .cases = [] { return norm_cases(2); },
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "channel_window_sum",
           .doc = "The sum over channels from `before` to `after` each one.",
           .inputs = {"x"},
           .attrs = &attr_type<op::ChannelWindowAttrs>(),
           .infer = infer_sum,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{op::channel_window_sum(c.grads[0], mirrored(c.attrs.as<op::ChannelWindowAttrs>()))};
               },
           .shard = by_sample,
           .cases = sum_cases,
           .saves = kSavesNothing,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
