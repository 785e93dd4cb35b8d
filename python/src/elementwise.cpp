#include <nanobind/stl/optional.h>

#include "define.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/bitwise.h"
#include "starling/ops/api/logical.h"
#include "starling/ops/api/masked.h"
#include "starling/ops/api/rounding.h"
#include "starling/ops/api/select.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/attrs/select.h"

namespace starling::python {
namespace {

void bind_unary(nb::module_& m) {
  def_unary<&neg>(m, "neg", "-x");
  def_unary<&abs>(m, "abs", "|x|");
  def_unary<&sign>(m, "sign", "-1, 0 or 1; zeros and NaN are kept.");
  def_unary<&square>(m, "square", "x²");
  def_unary<&reciprocal>(m, "reciprocal", "1 / x");
  def_unary<&sqrt>(m, "sqrt", "√x");
  def_unary<&rsqrt>(m, "rsqrt", "1 / √x");
  def_unary<&exp>(m, "exp", "eˣ");
  def_unary<&expm1>(m, "expm1", "eˣ - 1, precise near 0.");
  def_unary<&log>(m, "log", "The natural logarithm.");
  def_unary<&log1p>(m, "log1p", "log(1 + x), precise near 0.");
  def_unary<&log2>(m, "log2", "The logarithm to base 2.");
  def_unary<&sin>(m, "sin", "The sine.");
  def_unary<&cos>(m, "cos", "The cosine.");
  def_unary<&tan>(m, "tan", "The tangent.");
  def_unary<&asin>(m, "asin", "The angle in [-π/2, π/2] of this sine.");
  def_unary<&acos>(m, "acos", "The angle in [0, π] of this cosine.");
  def_unary<&atan>(m, "atan", "The angle in [-π/2, π/2] of this tangent.");
  def_unary<&sinh>(m, "sinh", "The hyperbolic sine.");
  def_unary<&cosh>(m, "cosh", "The hyperbolic cosine.");
  def_unary<&tanh>(m, "tanh", "The hyperbolic tangent.");
  def_unary<&erf>(m, "erf", "The error function.");
  def_unary<&floor>(m, "floor", "The largest whole number ≤ x.");
  def_unary<&ceil>(m, "ceil", "The smallest whole number ≥ x.");
  def_unary<&round>(m, "round", "The nearest whole number, halves to even.");
  def_unary<&trunc>(m, "trunc", "x without its fraction.");
  def_unary<&bitwise_not>(m, "bitwise_not", "Every bit the other way round.");
  def_unary<&logical_not>(m, "logical_not", "Whether x is zero.");
  def_unary<&isnan>(m, "isnan", "Whether x is NaN.");
  def_unary<&isinf>(m, "isinf", "Whether x is infinite.");
  def_unary<&isfinite>(m, "isfinite", "Whether x is neither infinite nor NaN.");
}

void bind_activations(nb::module_& m) {
  def_unary<&sigmoid>(m, "sigmoid", "1 / (1 + e⁻ˣ)");
  def_unary<&relu>(m, "relu", "max(x, 0)");
  def_unary<&gelu>(m, "gelu", "x · Φ(x), Φ the normal distribution.");
  def_unary<&gelu_tanh>(m, "gelu_tanh", "gelu with Φ approximated by a tanh.");
  def_unary<&silu>(m, "silu", "x · sigmoid(x)");
  def_unary<&softplus>(m, "softplus", "log(1 + eˣ), without overflow.");
  def_unary<&mish>(m, "mish", "x · tanh(softplus(x))");
  def_unary<&hardswish>(m, "hardswish", "x · clamp(x + 3, 0, 6) / 6");
  def_unary<&selu>(m, "selu", "scale · elu(x, alpha), both chosen to keep the variance at 1.");
  m.def(
      "leaky_relu", [](const Arg& x, double slope) { return leaky_relu(x.tensor, slope); }, nb::arg("x"),
      nb::arg("slope") = 0.01, "slope · x below 0.");
  m.def(
      "elu", [](const Arg& x, double alpha) { return elu(x.tensor, alpha); }, nb::arg("x"), nb::arg("alpha") = 1.0,
      "alpha · (eˣ - 1) below 0.");
  m.def(
      "prelu", [](const Arg& x, const Arg& weight) { return prelu(x.tensor, weight.tensor); }, nb::arg("x"),
      nb::arg("weight"), "weight · x below 0.");
}

void bind_binary(nb::module_& m) {
  def_binary<&add>(m, "add", "a + b");
  def_binary<&sub>(m, "sub", "a - b");
  def_binary<&mul>(m, "mul", "a · b");
  def_binary<&div>(m, "div", "a / b; integers are truncated towards zero.");
  def_binary<&maximum>(m, "maximum", "The larger of both; NaN if either is.");
  def_binary<&minimum>(m, "minimum", "The smaller of both; NaN if either is.");
  def_binary<&floor_div>(m, "floor_div", "floor(a / b)");
  def_binary<&mod>(m, "mod", "a - b · floor(a / b), with the sign of b.");
  def_binary<&fmod>(m, "fmod", "a - b · trunc(a / b), with the sign of a.");
  def_binary<&pow>(m, "pow", "aᵇ");
  def_binary<&atan2>(m, "atan2", "The angle of the point (b, a), in [-π, π].");
  def_binary<&equal>(m, "equal", "a = b, element by element.");
  def_binary<&not_equal>(m, "not_equal", "a ≠ b");
  def_binary<&less>(m, "less", "a < b");
  def_binary<&less_equal>(m, "less_equal", "a ≤ b");
  def_binary<&greater>(m, "greater", "a > b");
  def_binary<&greater_equal>(m, "greater_equal", "a ≥ b");
  def_binary<&logical_and>(m, "logical_and", "Whether both are nonzero.");
  def_binary<&logical_or>(m, "logical_or", "Whether one is nonzero.");
  def_binary<&logical_xor>(m, "logical_xor", "Whether exactly one is nonzero.");
  def_binary<&bitwise_and>(m, "bitwise_and", "The bits that both have.");
  def_binary<&bitwise_or>(m, "bitwise_or", "The bits that one of the two has.");
  def_binary<&bitwise_xor>(m, "bitwise_xor", "The bits that exactly one of the two has.");
  def_binary<&left_shift>(m, "left_shift", "a · 2ᵇ");
  def_binary<&right_shift>(m, "right_shift", "floor(a / 2ᵇ)");
}

void bind_selection(nb::module_& m) {
  m.def(
      "where",
      [](const Arg& condition, nb::handle a, nb::handle b) {
        if (nb::isinstance<Tensor>(a)) {
          const auto& first = nb::cast<const Tensor&>(a);
          return where(condition.tensor, first, to_tensor_beside(b, first));
        }
        const Tensor second = to_tensor(b);
        return where(condition.tensor, to_tensor_beside(a, second), second);
      },
      nb::arg("condition"), nb::arg("a"), nb::arg("b"), "a where the condition holds, else b.");
  m.def(
      "clamp",
      [](const Arg& x, std::optional<double> low, std::optional<double> high) {
        op::ClampAttrs bounds;
        if (low) bounds.min = *low;
        if (high) bounds.max = *high;
        return clamp(x.tensor, bounds);
      },
      nb::arg("x"), nb::arg("min") = nb::none(), nb::arg("max") = nb::none(), "The nearest number within [min, max].");
  m.def(
      "lerp", [](const Arg& a, const Arg& b, const Arg& weight) { return lerp(a.tensor, b.tensor, weight.tensor); },
      nb::arg("a"), nb::arg("b"), nb::arg("weight"), "a + weight · (b - a)");
  m.def(
      "masked_fill",
      [](const Arg& x, const Arg& mask, double value) { return masked_fill(x.tensor, mask.tensor, value); },
      nb::arg("x"), nb::arg("mask"), nb::arg("value"), "x, and the value where the mask holds.");
  m.def(
      "masked_select", [](const Arg& x, const Arg& mask) { return masked_select(x.tensor, mask.tensor); }, nb::arg("x"),
      nb::arg("mask"), "The elements where the mask holds, in order.");
  m.def(
      "masked_scatter",
      [](const Arg& x, const Arg& mask, const Arg& source) {
        return masked_scatter(x.tensor, mask.tensor, source.tensor);
      },
      nb::arg("x"), nb::arg("mask"), nb::arg("source"), "x, and the source's elements in order where the mask holds.");
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  bind_unary(m);
  bind_activations(m);
  bind_binary(m);
  bind_selection(m);
}

}  // namespace starling::python
