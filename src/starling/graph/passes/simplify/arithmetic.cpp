#include <cmath>

#include "starling/graph/passes/simplify/rules.h"

namespace starling::graph {
namespace {

bool is_number(DType dtype) { return dtype != DType::boolean; }

// Index of the operand that equals this number, of a commutative op's two; -1: neither.
int operand_that_is(const Site& site, double value) {
  if (site.is(site.in(1), value)) return 1;
  return site.is(site.in(0), value) ? 0 : -1;
}

// Other operand of an identity, broadcast to the result's shape.
ValueId other(Site& site, int operand) {
  return site.spread(site.in(static_cast<std::size_t>(1 - operand)), site.out().shape);
}

ValueId add_zero(Site& site) {
  const int zero = operand_that_is(site, 0);
  return zero < 0 ? kNoRewrite : other(site, zero);
}

ValueId sub_zero(Site& site) {
  if (site.is(site.in(1), 0)) return other(site, 1);
  if (!site.is(site.in(0), 0) || !is_number(site.out().dtype)) return kNoRewrite;
  return site.spread(site.emit("neg", {site.in(1)}), site.out().shape);
}

ValueId mul_one(Site& site) {
  const int one = operand_that_is(site, 1);
  if (one >= 0) return other(site, one);
  const int minus = operand_that_is(site, -1);
  if (minus < 0) return kNoRewrite;
  return site.spread(site.emit("neg", {site.in(static_cast<std::size_t>(1 - minus))}), site.out().shape);
}

ValueId div_one(Site& site) { return site.is(site.in(1), 1) ? other(site, 1) : kNoRewrite; }

// x / 2ⁿ = x · 2⁻ⁿ exactly; other reciprocals are rounded, which could break exact quotients.
ValueId div_by_power_of_two(Site& site) {
  const auto divisor = site.number(site.in(1));
  int exponent = 0;
  if (!divisor || !is_float(site.out().dtype) || std::abs(std::frexp(*divisor, &exponent)) != 0.5) return kNoRewrite;
  if (std::abs(exponent) > (site.out().dtype == DType::f64 ? 1000 : 100) || is_half(site.out().dtype))
    return kNoRewrite;
  return site.emit("mul", {site.in(0), site.scalar(1 / *divisor, site.out().dtype)});
}

// x · c with a number c.
struct Scaled {
  ValueId x = kNoRewrite;
  double by = 1;
};

Scaled scaled(const Site& site, ValueId id) {
  const Node& node = site.maker(id);
  if (!node.after.empty()) return {};
  if (is_op(node, "neg")) return {node.in[0], -1};
  if (!is_op(node, "mul")) return {};
  for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
    const auto number = site.number(node.in[at]);
    if (number && site.type(node.in[1 - at]).shape == site.type(id).shape) return {node.in[1 - at], *number};
  }
  return {};
}

// True if a product of scales is as accurate as its factors: no underflow or overflow. f16 and bf16 round too much.
bool is_sound(double scale, DType dtype) {
  if (dtype == DType::f64) return std::isnormal(scale);
  return dtype == DType::f32 && std::isnormal(static_cast<float>(scale));
}

ValueId rescaled(Site& site, ValueId x, double by) {
  const DType dtype = site.out().dtype;
  if (by == 1) return site.spread(x, site.out().shape);
  if (by == -1) return site.spread(site.emit("neg", {x}), site.out().shape);
  if (!is_sound(by, dtype)) return kNoRewrite;
  return site.emit("mul", {x, site.scalar(by, dtype)});
}

// (x · a) · b = x · (a b), and with signs.
ValueId mul_of_scaled(Site& site) {
  for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
    const auto number = site.number(site.in(at));
    if (!number || !is_sound(*number, site.out().dtype) || site.type(site.in(1 - at)).shape != site.out().shape)
      continue;
    const Scaled inner = scaled(site, site.in(1 - at));
    if (inner.x != kNoRewrite && is_sound(inner.by, site.out().dtype))
      return rescaled(site, inner.x, inner.by * *number);
  }
  return kNoRewrite;
}

ValueId neg_of_scaled(Site& site) {
  const Node& maker = site.maker_of(0);
  if (is_op(maker, "neg") && maker.after.empty()) return maker.in[0];
  if (is_op(maker, "sub") && maker.after.empty() && site.dies(0)) return site.emit("sub", {maker.in[1], maker.in[0]});
  const Scaled inner = scaled(site, site.in(0));
  return inner.x == kNoRewrite ? kNoRewrite : rescaled(site, inner.x, -inner.by);
}

ValueId negated(const Site& site, ValueId id) {
  const Node& maker = site.maker(id);
  return is_op(maker, "neg") && maker.after.empty() ? maker.in[0] : kNoRewrite;
}

// a + (-b) = a - b, a - (-b) = a + b
ValueId add_negated(Site& site) {
  if (const ValueId b = negated(site, site.in(1)); b != kNoRewrite) return site.emit("sub", {site.in(0), b});
  if (const ValueId a = negated(site, site.in(0)); a != kNoRewrite) return site.emit("sub", {site.in(1), a});
  return kNoRewrite;
}

ValueId sub_negated(Site& site) {
  const ValueId b = negated(site, site.in(1));
  return b == kNoRewrite ? kNoRewrite : site.emit("add", {site.in(0), b});
}

ValueId power(Site& site) {
  const auto exponent = site.number(site.in(1));
  if (!exponent) return kNoRewrite;
  const ValueId x = site.in(0);
  const bool whole = site.type(x).shape == site.out().shape;
  if (*exponent == 1) return site.spread(x, site.out().shape);
  if (*exponent == 2 && whole) return site.emit("mul", {x, x});
  if (*exponent == 3 && whole) return site.emit("mul", {site.emit("mul", {x, x}), x});
  if (*exponent == -1 && whole && is_float(site.out().dtype)) return site.emit("reciprocal", {x});
  return kNoRewrite;
}

// f(f(x)) = f(x)
ValueId twice(Site& site) {
  const Node& maker = site.maker_of(0);
  return maker.op == site.node().op && maker.attrs == site.node().attrs ? site.in(0) : kNoRewrite;
}

// |-x| = |x|, |relu(x)| = relu(x), (-x)² = |x|² = x²
ValueId abs_of(Site& site) {
  if (const ValueId x = negated(site, site.in(0)); x != kNoRewrite) return site.emit("abs", {x});
  return is_op(site.maker_of(0), "relu") ? site.in(0) : kNoRewrite;
}

ValueId square_of(Site& site) {
  const Node& maker = site.maker_of(0);
  if ((is_op(maker, "neg") || is_op(maker, "abs")) && maker.after.empty()) return site.emit("square", {maker.in[0]});
  return kNoRewrite;
}

ValueId of_itself(Site& site) { return site.in(0) == site.in(1) ? site.in(0) : kNoRewrite; }

constexpr SimplifyRule kRules[] = {
    {"add", "x + 0", add_zero},          {"add", "a + (-b)", add_negated},
    {"sub", "x - 0", sub_zero},          {"sub", "a - (-b)", sub_negated},
    {"mul", "x * 1", mul_one},           {"mul", "(x * a) * b", mul_of_scaled},
    {"div", "x / 1", div_one},           {"div", "x / 2^n", div_by_power_of_two},
    {"neg", "-(x * a)", neg_of_scaled},  {"pow", "x ^ n", power},
    {"relu", "relu(relu(x))", twice},    {"abs", "abs(abs(x))", twice},
    {"abs", "abs(-x)", abs_of},          {"square", "(-x)^2", square_of},
    {"sign", "sign(sign(x))", twice},    {"floor", "floor(floor(x))", twice},
    {"ceil", "ceil(ceil(x))", twice},    {"round", "round(round(x))", twice},
    {"trunc", "trunc(trunc(x))", twice}, {"maximum", "max(x, x)", of_itself},
    {"minimum", "min(x, x)", of_itself},
};

}  // namespace

std::span<const SimplifyRule> arithmetic_rules() { return kRules; }

}  // namespace starling::graph
