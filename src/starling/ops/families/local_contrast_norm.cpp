#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/local_norm.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor local_contrast_norm(const Tensor& x, const op::LocalContrastNormAttrs& attrs) {
  return apply1(named_op<"local_contrast_norm">(), {x}, attrs);
}
Tensor op::gaussian_mean(const Tensor& x, const op::GaussianMeanAttrs& attrs) {
  return apply1(named_op<"gaussian_mean">(), {x}, attrs);
}

namespace {

Tensor gaussian_mean_backward(const Tensor& dy, const Shape& shape, std::int64_t size, double sigma) {
  return apply1(named_op<"gaussian_mean_backward">(), {dy}, op::GaussianMeanGradAttrs{shape, size, sigma});
}

void check_window(const InferCall& call, const Shape& x, std::int64_t size, double sigma) {
  check(x.rank() == 4 && x[1] >= 1, "[{}] expected x [n, c, h, w] with channels, got {}", call.op.name, to_string(x));
  check(size >= 1 && size < 1024 && size % 2 == 1, "[{}] expected an odd size in [1, 1023], got {}", call.op.name,
        size);
  check(sigma > 1e-3 && std::isfinite(sigma), "[{}] expected a sigma above 0.001, got {}", call.op.name, sigma);
}

Types infer_norm(const InferCall& call) {
  rules::expect_float(call);
  const auto& a = call.attrs.as<op::LocalContrastNormAttrs>();
  check_window(call, call.in[0].shape, a.size, a.sigma);
  check(a.epsilon > 0 && std::isfinite(a.epsilon), "[{}] expected an epsilon above 0, got {}", call.op.name, a.epsilon);
  return {call.in[0]};
}

Types infer_mean(const InferCall& call) {
  rules::expect_float(call);
  const auto& a = call.attrs.as<op::GaussianMeanAttrs>();
  Shape shape = call.in[0].shape;
  check_window(call, shape, a.size, a.sigma);
  shape[1] = 1;
  return {TensorType{call.in[0].dtype, shape}};
}

Types infer_mean_backward(const InferCall& call) {
  rules::expect_float(call);
  const auto& a = call.attrs.as<op::GaussianMeanGradAttrs>();
  check_window(call, a.shape, a.size, a.sigma);
  Shape dy = a.shape;
  dy[1] = 1;
  check(call.in[0].shape == dy, "[{}] expected dy {}, got {}", call.op.name, to_string(dy), to_string(call.in[0]));
  return {TensorType{call.in[0].dtype, a.shape}};
}

// Gradient through y = v / max(s, c), c = mean(s), s = sqrt(G(v²) + epsilon), v = x - G(x).
TensorList norm_gradient(const GradCall& call) {
  const auto& a = call.attrs.as<op::LocalContrastNormAttrs>();
  const Tensor &x = call.in[0], &dy = call.grads[0];
  const op::ReduceAttrs channels{{1}, true}, image{{2, 3}, true};
  const op::GaussianMeanAttrs window{a.size, a.sigma};
  const auto spread = [&](const Tensor& d) { return gaussian_mean_backward(d, x.shape(), a.size, a.sigma); };
  const Tensor v = sub(x, op::gaussian_mean(x, window));
  const Tensor s = sqrt(add(op::gaussian_mean(mul(v, v), window), a.epsilon));
  const Tensor c = mean(s, image);
  const Tensor largest = maximum(s, c);
  const Tensor scaled = div(dy, largest);
  const Tensor d_largest = neg(sum(div(mul(scaled, v), largest), channels));
  const Tensor by_own = mul(d_largest, cast(greater_equal(s, c), x.dtype()));
  const Tensor d_mean = sum(sub(d_largest, by_own), image);
  const double pixels = std::max(1.0, static_cast<double>(x.shape()[2] * x.shape()[3]));
  const Tensor d_s = add(by_own, div(d_mean, pixels));
  const Tensor d_v = add(scaled, mul(v, spread(div(d_s, s))));
  return {sub(d_v, spread(sum(d_v, channels)))};
}

std::vector<OpCase> norm_cases() {
  const auto one = [](Shape x, op::LocalContrastNormAttrs a) { return OpCase{{{.shape = x}}, a}; };
  return {one({2, 3, 4, 4}, {}),       one({1, 1, 6, 6}, {3, 1}),   one({1, 2, 5, 7}, {5, 1.5, 0.01}),
          one({0, 2, 3, 3}, {}),       one({1, 1, 3, 30}, {7, 2}),  one({2, 1, 5, 5}, {9, 3, 0.1}),
          one({1, 4, 3, 3}, {3, 0.5}), one({1, 1, 4, 9}, {1, 1, 1})};
}

struct MeanCase {
  Shape x;
  std::int64_t size;
  double sigma;
};
const std::vector<MeanCase>& mean_samples() {
  static const std::vector<MeanCase> kSamples = {{{2, 3, 4, 4}, 9, 2},   {{1, 1, 6, 6}, 3, 1},  {{1, 2, 5, 7}, 5, 1.5},
                                                 {{0, 2, 3, 3}, 9, 2},   {{1, 1, 3, 30}, 7, 2}, {{2, 1, 5, 5}, 9, 3},
                                                 {{1, 4, 3, 3}, 3, 0.5}, {{1, 1, 4, 9}, 1, 1}};
  return kSamples;
}

}  // namespace

void register_ops_local_contrast_norm(OpRegistry& ops) {
  const auto by_sample = [](const ShardCall& call) { return rules::shard_batch(call, 1); };
  ops.add({.name = "local_contrast_norm",
           .doc = "x less its Gaussian mean, over the larger of its local and mean deviation.",
           .inputs = {"x"},
           .attrs = &attr_type<op::LocalContrastNormAttrs>(),
           .infer = infer_norm,
           .gradient = norm_gradient,
           .shard = by_sample,
           .cases = norm_cases,
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "gaussian_mean",
           .doc = "The mean over channels and a Gaussian window around each pixel.",
           .inputs = {"x"},
           .attrs = &attr_type<op::GaussianMeanAttrs>(),
           .infer = infer_mean,
           .gradient =
               [](const GradCall& c) {
                 const auto& a = c.attrs.as<op::GaussianMeanAttrs>();
                 return TensorList{gaussian_mean_backward(c.grads[0], c.in[0].shape(), a.size, a.sigma)};
               },
           .shard = by_sample,
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (const auto& s : mean_samples())
                   cases.push_back({{{.shape = s.x}}, op::GaussianMeanAttrs{s.size, s.sigma}});
                 return cases;
               },
           .saves = kSavesNothing,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "gaussian_mean_backward",
           .doc = "dy spread by Gaussian windows over all channels.",
           .inputs = {"dy"},
           .outputs = {"dx"},
           .attrs = &attr_type<op::GaussianMeanGradAttrs>(),
           .infer = infer_mean_backward,
           .gradient =
               [](const GradCall& c) {
                 const auto& a = c.attrs.as<op::GaussianMeanGradAttrs>();
                 return TensorList{op::gaussian_mean(c.grads[0], {a.size, a.sigma})};
               },
           .shard = by_sample,
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (const auto& s : mean_samples()) {
                   Shape dy = s.x;
                   dy[1] = 1;
                   cases.push_back({{{.shape = dy}}, op::GaussianMeanGradAttrs{s.x, s.size, s.sigma}});
                 }
                 return cases;
               },
           .saves = kSavesNothing,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
