#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/logical.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

using elementwise::number_like;

Tensor pow(const Tensor& a, const Tensor& b) { return elementwise::promoted(named_op<"pow">(), a, b); }

Tensor pow(const Tensor& a, double b) {
  if (b == 2) return square(a);
  if (is_float(a.dtype())) {
    if (b == 0.5) return sqrt(a);
    if (b == -0.5) return rsqrt(a);
    if (b == -1) return reciprocal(a);
  }
  return pow(a, number_like(a, b));
}

Tensor pow(double a, const Tensor& b) { return pow(number_like(b, a), b); }

namespace {

using rules::sum_to;

std::int64_t integer_pow(const std::int64_t* x) {
  if (x[1] < 0) fail("[pow] expected exponents of 0 or more for integers, got {} to the {}", x[0], x[1]);
  std::uint64_t result = 1, base = elementwise::bits(x[0]);
  for (auto rest = elementwise::bits(x[1]); rest != 0; rest >>= 1) {
    if (rest & 1) result *= base;
    base *= base;
  }
  return elementwise::wrap(result);
}

// Gradient by the base, b · aᵇ⁻¹. For exponent 0 it is 0 at every base: a⁻¹ is kept out of the product, where 0 · ∞
// would be NaN.
Tensor slope_of_base(const GradCall& c) {
  const Tensor &a = c.in[0], &b = c.in[1];
  const Tensor exponent = where(equal(b, 0.0), number_like(b, 1), b);
  return mul(mul(c.grads[0], b), pow(a, sub(exponent, 1.0)));
}

// Gradient by the exponent, aᵇ · log(a). At base 0 it is 0 for exponents of 0 and more, keeping the logarithm out of
// the product, and -∞ for others. At bases below 0 it is NaN.
Tensor slope_of_exponent(const GradCall& c) {
  const Tensor &a = c.in[0], &b = c.in[1];
  const Tensor base = where(logical_and(equal(a, 0.0), greater_equal(b, 0.0)), number_like(a, 1), a);
  return mul(mul(c.grads[0], pow(a, b)), log(base));
}

TensorList grad_pow(const GradCall& c) {
  return {c.needs(0) ? sum_to(slope_of_base(c), c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(slope_of_exponent(c), c.in[1].shape()) : Tensor()};
}

}  // namespace

void register_ops_power(OpRegistry& ops) {
  OpDef power = elementwise::binary(
      "pow", "a to the power b.", [](const double* x) { return std::pow(x[0], x[1]); }, grad_pow, kSavesInputs);
  power.infer = elementwise::infer_broadcast_number;
  power.integer = integer_pow;
  power.precision = Width::wide;
  power.broadcasts = true;
  power.cases = [] { return elementwise::cases_of_two({0.2, 3}, {-2, 2.3}); };
  ops.add(power);
}

}  // namespace starling
