#include "starling/ops/api/rotary.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor rotary(const Tensor& x, const op::RotaryAttrs& attrs) { return apply1(named_op<"rotary">(), {x}, attrs); }

namespace {

Types infer_rotary(const InferCall& call) {
  rules::expect_float(call);
  const Shape& shape = call.in[0].shape;
  check(shape.rank() >= 2 && shape.back() % 2 == 0, "[rotary] expected x [.., t, d] with an even d, got {}",
        to_string(call.in[0]));
  const auto& a = call.attrs.as<op::RotaryAttrs>();
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // positions stay exact in doubles
  check(std::isfinite(a.base) && a.base > 0, "[rotary] expected a base above 0, got {}", a.base);
  check(a.offset > -kMost && a.offset < kMost, "[rotary] expected an offset within ±2^40, got {}", a.offset);
  return {call.in[0]};
}

TensorList grad_rotary(const GradCall& c) {
  op::RotaryAttrs back = c.attrs.as<op::RotaryAttrs>();
  back.inverse = !back.inverse;
  return {rotary(c.grads[0], back)};
}

// Positions count along the rows, so only dimensions before them may be split.
ShardRule shard_rotary(const ShardCall& call) {
  const Layout at = call.layouts[0];
  if (at.is_partial() || (at.is_split() && at.dim < call.in[0].shape.rank() - 2)) return {{at}, {at}};
  return rules::shard_replicated(call);
}

std::vector<OpCase> rotary_cases() {
  const auto make = [](Shape shape, op::RotaryAttrs attrs) { return OpCase{{{.shape = shape}}, attrs}; };
  return {make({5, 4}, {}),
          make({2, 3, 6}, {.base = 100}),
          make({2, 3, 6}, {.offset = 7}),
          make({2, 2, 3, 4}, {.interleaved = true}),
          make({3, 6}, {.base = 50, .offset = -2, .interleaved = true, .inverse = true}),
          make({2, 3, 4}, {.inverse = true}),
          make({0, 3, 4}, {}),
          make({2, 3, 0}, {}),
          make({3, 38}, {}),
          make({3, 38}, {.offset = 3, .interleaved = true})};
}

}  // namespace

void register_ops_rotary(OpRegistry& ops) {
  ops.add({.name = "rotary",
           .doc = "Rotary position embedding: turns pairs of x [.., t, d] by angles that grow with their position.",
           .inputs = {"x"},
           .attrs = &attr_type<op::RotaryAttrs>(),
           .infer = infer_rotary,
           .gradient = grad_rotary,
           .shard = shard_rotary,
           .cases = rotary_cases,
           .saves = kSavesNothing,
           .inplace = 0,
           .cost = costs::each(3),
           .precision = Width::as_given});
}

}  // namespace starling
