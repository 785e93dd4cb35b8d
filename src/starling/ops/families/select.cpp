#include "starling/ops/api/select.h"

#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/dtype_limits.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const OpDef& op = named_op<"where">();
  if (!a.defined() || !b.defined() || a.dtype() == b.dtype()) return apply1(op, {condition, a, b});
  const DType dtype = promote(a.dtype(), b.dtype());
  return apply1(op, {condition, cast(a, dtype), cast(b, dtype)});
}

Tensor clamp(const Tensor& x, const op::ClampAttrs& bounds) { return apply1(named_op<"clamp">(), {x}, bounds); }
Tensor op::clamp_backward(const Tensor& dy, const Tensor& x, const op::ClampAttrs& bounds) {
  return apply1(named_op<"clamp_backward">(), {dy, x}, bounds);
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  return apply1(named_op<"lerp">(), {a, b, weight});
}
Tensor lerp(const Tensor& a, const Tensor& b, double weight) { return lerp(a, b, elementwise::number_like(a, weight)); }

namespace {

using rules::sum_to;

TensorList grad_where(const GradCall& c) {
  const Tensor none = scalar(0, c.grads[0].dtype());
  return {Tensor(), sum_to(where(c.in[0], c.grads[0], none), c.in[1].shape()),
          sum_to(where(c.in[0], none, c.grads[0]), c.in[2].shape())};
}

Types infer_where(const InferCall& call) {
  check(call.in[0].dtype == DType::boolean, "[where] expected a condition of bool, got {}", to_string(call.in[0]));
  check(call.in[1].dtype == call.in[2].dtype, "[where] expected values of one dtype, got {} and {}",
        name(call.in[1].dtype), name(call.in[2].dtype));
  Shape shape = broadcast_shapes(call.in[1].shape, call.in[2].shape, "where");
  return {TensorType{call.in[1].dtype, broadcast_shapes(call.in[0].shape, shape, "where")}};
}

std::vector<OpCase> where_cases() {
  const auto three = [](Shape c, Shape a, Shape b, DType dtype = DType::f64) {
    return OpCase{{{.shape = c, .low = 0, .high = 1.99, .dtype = DType::boolean},
                   {.shape = a, .dtype = dtype},
                   {.shape = b, .dtype = dtype}},
                  op::NoAttrs{}};
  };
  return {three({7}, {7}, {7}),
          three({3, 5}, {5}, {3, 1}),
          three({2, 1}, {}, {2, 3}),
          three({0}, {0}, {0}),
          three({4}, {2, 4}, {}),
          three({33}, {33}, {33}),
          three({}, {3, 2}, {2}),
          three({2, 1, 3}, {4, 1}, {}),
          three({5}, {5}, {5, 5}),
          three({37}, {37}, {37}, DType::i32),
          three({70}, {70}, {}, DType::boolean)};
}

void register_where(OpRegistry& ops) {
  ops.add({.name = "where",
           .doc = "a where the condition holds, else b.",
           .inputs = {"condition", "a", "b"},
           .infer = infer_where,
           .gradient = grad_where,
           .shard = rules::shard_elementwise,
           .cases = where_cases,
           .scalar = [](const double* x) { return x[0] != 0 ? x[1] : x[2]; },
           .integer = [](const std::int64_t* x) { return x[0] != 0 ? x[1] : x[2]; },
           .saves = kSavesInputs,
           .broadcasts = true});
}

void check_bounds(const InferCall& call) {
  const auto& [min, max] = call.attrs.as<op::ClampAttrs>();
  check(min <= max, "[{}] expected bounds with min ≤ max, got {} and {}", call.op.name, min, max);
  const DType dtype = call.in[0].dtype;
  if (is_float(dtype)) return;
  for (double bound : {min, max}) {
    check(std::isinf(bound) || bound == std::trunc(bound), "[{}] expected whole bounds for {}, got {}", call.op.name,
          name(dtype), bound);
  }
  const auto [least, most] = limits_of(dtype);
  check(min <= most && max >= least, "[{}] expected bounds that leave numbers of {}, got {} and {}", call.op.name,
        name(dtype), min, max);
}

Types infer_clamp(const InferCall& call) {
  rules::expect_ordered(call);
  check_bounds(call);
  return elementwise::infer_number(call);
}

Types infer_clamp_backward(const InferCall& call) {
  check_bounds(call);
  rules::expect_float(call);
  return rules::infer_broadcast(call);
}

void register_clamp(OpRegistry& ops) {
  const auto bounds = [] {
    return std::vector<Attrs>{op::ClampAttrs{-0.6, 0.9}, op::ClampAttrs{.min = 0.1}, op::ClampAttrs{.max = -0.3},
                              op::ClampAttrs{}};
  };
  OpDef clamp_op = elementwise::unary(
      "clamp", "The nearest number within [min, max].",
      [](const double* x) { return std::isnan(x[0]) ? x[0] : std::clamp(x[0], x[1], x[2]); },
      [](const GradCall& c) {
        return TensorList{op::clamp_backward(c.grads[0], c.in[0], c.attrs.as<op::ClampAttrs>())};
      },
      kSavesInputs);
  clamp_op.attrs = &attr_type<op::ClampAttrs>();
  clamp_op.infer = infer_clamp;
  clamp_op.integer = [](const std::int64_t* x) { return std::clamp(x[0], x[1], x[2]); };
  clamp_op.cases = [bounds] {
    auto cases = elementwise::cases_of_one({}, bounds());
    for (auto more : elementwise::whole_cases(1, {-9, 9}, {DType::i32, DType::i64})) {
      more.attrs = op::ClampAttrs{.min = -3};
      cases.push_back(more);
    }
    return cases;
  };
  ops.add(clamp_op);
  OpDef slope = elementwise::backward(
      "clamp_backward", "dy where x lies within [min, max], else 0.",
      [](const double* x) { return x[1] >= x[2] && x[1] <= x[3] ? x[0] : 0.0; }, nullptr);
  slope.attrs = &attr_type<op::ClampAttrs>();
  slope.infer = infer_clamp_backward;
  slope.cases = [bounds] { return elementwise::cases_alike({{}, {}}, bounds()); };
  ops.add(slope);
}

Types infer_lerp(const InferCall& call) {
  rules::expect_float(call);
  return rules::infer_broadcast(call);
}

TensorList grad_lerp(const GradCall& c) {
  const Tensor& g = c.grads[0];
  return {c.needs(0) ? sum_to(mul(g, sub(1.0, c.in[2])), c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(mul(g, c.in[2]), c.in[1].shape()) : Tensor(),
          c.needs(2) ? sum_to(mul(g, sub(c.in[1], c.in[0])), c.in[2].shape()) : Tensor()};
}

std::vector<OpCase> lerp_cases() {
  const auto three = [](Shape a, Shape b, Shape weight) {
    return OpCase{{{.shape = a}, {.shape = b}, {.shape = weight, .low = -0.5, .high = 1.5}}, op::NoAttrs{}};
  };
  return {three({7}, {7}, {7}),   three({3, 5}, {5}, {3, 1}),   three({2, 1}, {}, {2, 3}),
          three({0}, {0}, {0}),   three({4}, {2, 4}, {}),       three({33}, {33}, {33}),
          three({}, {3, 2}, {2}), three({2, 1, 3}, {4, 1}, {}), three({2, 19}, {2, 19}, {})};
}

}  // namespace

void register_ops_select(OpRegistry& ops) {
  register_where(ops);
  register_clamp(ops);
  ops.add(
      {.name = "lerp",
       .doc = "a + weight · (b - a), exact at weights 0 and 1.",
       .inputs = {"a", "b", "weight"},
       .infer = infer_lerp,
       .gradient = grad_lerp,
       .shard = rules::shard_elementwise,
       .cases = lerp_cases,
       .scalar =
           [](const double* x) { return x[2] < 0.5 ? x[0] + x[2] * (x[1] - x[0]) : x[1] - (1 - x[2]) * (x[1] - x[0]); },
       .saves = kSavesInputs,
       .inplace = 0});
}

}  // namespace starling
