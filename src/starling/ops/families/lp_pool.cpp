#include <cmath>

#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/pool.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/pool_geometry.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor lp_pool1d(const Tensor& x, const op::LpPoolAttrs& attrs) { return apply1(named_op<"lp_pool1d">(), {x}, attrs); }
Tensor lp_pool2d(const Tensor& x, const op::LpPoolAttrs& attrs) { return apply1(named_op<"lp_pool2d">(), {x}, attrs); }
Tensor lp_pool3d(const Tensor& x, const op::LpPoolAttrs& attrs) { return apply1(named_op<"lp_pool3d">(), {x}, attrs); }

Tensor op::abs_pow(const Tensor& x, double exponent) {
  return apply1(named_op<"abs_pow">(), {x}, op::ExponentAttrs{exponent});
}
Tensor op::signed_pow(const Tensor& x, double exponent) {
  return exponent == 1 ? x : apply1(named_op<"signed_pow">(), {x}, op::ExponentAttrs{exponent});
}

namespace {

Types infer_lp(const InferCall& call) {
  rules::expect_float(call);
  const char* who = call.op.name.c_str();
  const auto& a = call.attrs.as<op::LpPoolAttrs>();
  return {TensorType{call.in[0].dtype, pool_geometry(call.in[0].shape, a, spatial_dims(call.op.name), who).y}};
}

// Gradient: dy · y^(1-p), summed over the windows of each element, times the element's own power. Those powers leave
// the range of 16 bits long before their product does.
TensorList lp_gradient(const GradCall& c) {
  const auto& a = c.attrs.as<op::LpPoolAttrs>();
  const Tensor x = rules::widened(c.in[0]), y = rules::widened(c.out[0]), dy = rules::widened(c.grads[0]);
  const Tensor share = a.p == 1 ? dy : mul(dy, op::signed_pow(y, 1 - a.p));
  const op::AvgPoolGradAttrs sums{
      .shape = c.in[0].shape(), .kernel = a.kernel, .stride = a.stride, .ceil_mode = a.ceil_mode, .divisor = 1};
  const Tensor dx = mul(apply1(named_op<"avg_pool_backward">(), {share}, sums), op::signed_pow(x, a.p - 1));
  return {dx.dtype() == c.in[0].dtype() ? dx : cast(dx, c.in[0].dtype())};
}

std::vector<OpCase> lp_cases(int spatial) {
  const auto one = [&](Shape x, op::LpPoolAttrs a) { return OpCase{{{.shape = x, .distinct = true}}, a}; };
  if (spatial == 1)
    return {one({2, 3, 8}, {}),
            one({1, 2, 9}, {2, {3}, {2}}),
            one({1, 1, 40}, {3, {3}, {1}}),
            one({1, 2, 7}, {2, {2}, {}, true}),
            one({0, 2, 4}, {}),
            one({1, 1, 75}, {}),
            one({1, 2, 6}, {4, {3}}),
            one({1, 1, 10}, {2.5, {4}, {3}})};
  if (spatial == 3)
    return {one({1, 2, 4, 4, 4}, {}),
            one({1, 1, 4, 5, 6}, {2, {3, 2, 1}, {2, 1, 1}}),
            one({1, 1, 4, 4, 4}, {3, {2}, {1}}),
            one({1, 1, 3, 3, 5}, {2, {2}, {2}, true}),
            one({0, 1, 2, 2, 2}, {}),
            one({1, 1, 2, 3, 35}, {2, {2, 3, 3}, {1, 1, 2}}),
            one({1, 2, 2, 2, 19}, {4, {1, 2, 3}, {1}}),
            one({2, 1, 3, 3, 3}, {2.5, {3}})};
  return {one({2, 3, 4, 4}, {}),
          one({1, 2, 5, 7}, {2, {3, 2}, {2, 1}}),
          one({1, 1, 6, 6}, {3, {3}, {2}}),
          one({0, 2, 4, 4}, {}),
          one({1, 1, 10, 20}, {}),
          one({1, 1, 5, 39}, {2, {3}, {2}, true}),
          one({1, 1, 4, 44}, {4, {4, 5}, {2}}),
          one({1, 2, 5, 5}, {2.5, {2}, {1}})};
}

double power_of(double x, double exponent) { return x == 0 && exponent < 0 ? 0 : std::pow(std::abs(x), exponent); }

OpDef power_op(std::string name, std::string doc, double (*scalar)(const double*),
               std::function<TensorList(const GradCall&)> gradient) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"x"},
          .attrs = &attr_type<op::ExponentAttrs>(),
          .infer =
              [](const InferCall& call) {
                rules::expect_float(call);
                return rules::infer_same(call);
              },
          .gradient = std::move(gradient),
          .shard = rules::shard_elementwise,
          .cases =
              [] {
                const auto one = [](Shape x, double e, double low = -2) {
                  return OpCase{{{.shape = x, .low = low, .distinct = true}}, op::ExponentAttrs{e}};
                };
                return std::vector<OpCase>{one({7}, 2),    one({3, 5}, 3),          one({}, 1.5, 0.5),
                                           one({0, 3}, 2), one({2, 3, 4}, -1, 0.5), one({1, 17}, -0.75, 0.5),
                                           one({6}, 1),    one({20}, 0.5, 0.5)};
              },
          .scalar = scalar,
          .saves = kSavesInputs,
          .plain = true,
          .inplace = 0,
          .precision = Width::wide};
}

}  // namespace

void register_ops_lp_pool(OpRegistry& ops) {
  for (int spatial : {1, 2, 3}) {
    ops.add({.name = "lp_pool" + std::to_string(spatial) + "d",
             .doc = "(Σ |x|^p)^(1/p) of each window.",
             .inputs = {"x"},
             .attrs = &attr_type<op::LpPoolAttrs>(),
             .infer = infer_lp,
             .gradient = lp_gradient,
             .shard = [](const ShardCall& call) { return rules::shard_batch(call, 1); },
             .cases = [spatial] { return lp_cases(spatial); },
             .cost = costs::each(1),
             .precision = Width::wide});
  }
  ops.add(power_op(
      "abs_pow", "|x|^e; 0 at 0 when e is negative.", [](const double* x) { return power_of(x[0], x[1]); },
      [](const GradCall& c) {
        const double e = c.attrs.as<op::ExponentAttrs>().exponent;
        return TensorList{mul(mul(c.grads[0], op::signed_pow(c.in[0], e - 1)), e)};
      }));
  ops.add(power_op(
      "signed_pow", "sign(x) · |x|^e; 0 at 0 when e is negative.",
      [](const double* x) { return std::copysign(power_of(x[0], x[1]), x[0]); },
      [](const GradCall& c) {
        const double e = c.attrs.as<op::ExponentAttrs>().exponent;
        return TensorList{mul(mul(c.grads[0], op::abs_pow(c.in[0], e - 1)), e)};
      }));
}

}  // namespace starling
