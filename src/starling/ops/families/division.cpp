#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

using elementwise::number_like;
using elementwise::promoted;

Tensor floor_div(const Tensor& a, const Tensor& b) { return promoted(named_op<"floor_div">(), a, b); }
Tensor mod(const Tensor& a, const Tensor& b) { return promoted(named_op<"mod">(), a, b); }
Tensor fmod(const Tensor& a, const Tensor& b) { return promoted(named_op<"fmod">(), a, b); }
Tensor floor_div(const Tensor& a, double b) { return floor_div(a, number_like(a, b)); }
Tensor mod(const Tensor& a, double b) { return mod(a, number_like(a, b)); }
Tensor fmod(const Tensor& a, double b) { return fmod(a, number_like(a, b)); }

namespace {

using rules::sum_to;

// True if a truncated quotient is one above the floor: there is a remainder, with a sign other than the divisor's.
template <class T>
bool above_floor(T remainder, T divisor) {
  return remainder != 0 && (remainder < 0) != (divisor < 0);
}

// Zeros have the sign of the divisor, as in Python and NumPy.
double mod_of(const double* x) {
  const double r = std::fmod(x[0], x[1]);
  if (r == 0) return std::copysign(0.0, x[1]);
  return above_floor(r, x[1]) ? r + x[1] : r;
}

// a - fmod(a, b) is within rounding of a multiple of b. Zeros have the sign of a / b.
double floor_div_of(const double* x) {
  if (x[1] == 0) return x[0] / x[1];
  const double r = std::fmod(x[0], x[1]);
  const double whole = std::nearbyint((x[0] - r) / x[1]) - (above_floor(r, x[1]) ? 1 : 0);
  return whole == 0 ? std::copysign(0.0, std::signbit(x[0]) == std::signbit(x[1]) ? 1.0 : -1.0) : whole;
}

void expect_divisor(const char* op, const std::int64_t* x) {
  if (x[1] == 0) fail("[{}] expected a divisor other than 0, got {} and 0", op, x[0]);
}

// Special case -1: the remainder is 0, and the most negative integer cannot be divided by it.
std::int64_t remainder(const std::int64_t* x) { return x[1] == -1 ? 0 : x[0] % x[1]; }

std::int64_t integer_fmod(const std::int64_t* x) {
  expect_divisor("fmod", x);
  return remainder(x);
}

std::int64_t integer_mod(const std::int64_t* x) {
  expect_divisor("mod", x);
  const std::int64_t r = remainder(x);
  return above_floor(r, x[1]) ? r + x[1] : r;
}

std::int64_t integer_floor_div(const std::int64_t* x) {
  expect_divisor("floor_div", x);
  if (x[1] == -1) return elementwise::wrap(-elementwise::bits(x[0]));
  return x[0] / x[1] - std::int64_t{above_floor(remainder(x), x[1])};
}

// The quotient is piecewise constant: no gradient through it.
TensorList grad_mod(const GradCall& c) {
  return {c.needs(0) ? sum_to(c.grads[0], c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(neg(mul(c.grads[0], floor_div(c.in[0], c.in[1]))), c.in[1].shape()) : Tensor()};
}

TensorList grad_fmod(const GradCall& c) {
  const auto quotient = [&] { return trunc(div(c.in[0], c.in[1])); };
  return {c.needs(0) ? sum_to(c.grads[0], c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(neg(mul(c.grads[0], quotient())), c.in[1].shape()) : Tensor()};
}

OpDef division(std::string name, std::string doc, elementwise::Scalar scalar, elementwise::Integer integer,
               elementwise::Gradient gradient) {
  OpDef op = elementwise::binary(std::move(name), std::move(doc), scalar, std::move(gradient), kSavesInputs);
  op.infer = [](const InferCall& call) {
    rules::expect_ordered(call);
    return elementwise::infer_broadcast_number(call);
  };
  op.integer = integer;
  op.cases = [] {
    auto cases = elementwise::cases_of_two({-7, 7.3}, {0.4, 2.3});
    for (const auto& more : elementwise::cases_of_two({-5, 7}, {-3.3, -0.7})) cases.push_back(more);
    return cases;
  };
  return op;
}

}  // namespace

void register_ops_division(OpRegistry& ops) {
  ops.add(division("floor_div", "The floor of a / b.", floor_div_of, integer_floor_div, nullptr));
  ops.add(division("mod", "a - b · floor(a / b): what remains, with the sign of b.", mod_of, integer_mod, grad_mod));
  ops.add(division(
      "fmod", "a - b · trunc(a / b): what remains, with the sign of a.",
      [](const double* x) { return std::fmod(x[0], x[1]); }, integer_fmod, grad_fmod));
}

}  // namespace starling
