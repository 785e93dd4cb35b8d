#include "starling/ops/binary.h"

#include "starling/ops/apply.h"
#include "starling/ops/creation.h"
#include "starling/ops/registry.h"
#include "starling/ops/rules.h"
#include "starling/ops/unary.h"

namespace starling {
namespace {

Tensor promoted(const OpDef& op, const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.dtype() == b.dtype()) return apply1(op, {a, b});
  const DType dtype = promote(a.dtype(), b.dtype());
  return apply1(op, {cast(a, dtype), cast(b, dtype)});
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return promoted(named_op<"add">(), a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return promoted(named_op<"sub">(), a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return promoted(named_op<"mul">(), a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return promoted(named_op<"div">(), a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return promoted(named_op<"maximum">(), a, b); }
Tensor equal(const Tensor& a, const Tensor& b) { return promoted(named_op<"equal">(), a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return promoted(named_op<"not_equal">(), a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return promoted(named_op<"less">(), a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return promoted(named_op<"less_equal">(), a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return promoted(named_op<"greater">(), a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return promoted(named_op<"greater_equal">(), a, b); }
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  static const OpDef& op = find_op("where");
  if (a.dtype() == b.dtype()) return apply1(op, {condition, a, b});
  const DType dtype = promote(a.dtype(), b.dtype());
  return apply1(op, {condition, cast(a, dtype), cast(b, dtype)});
}

namespace {

// The number as a tensor beside `a`; while tracing it is a node, which runs where the program does.
Tensor number_like(const Tensor& a, double value) {
  const Tensor made = scalar(value, a.dtype());
  if (made.traced() || a.device() == kCpu) return made;
  return a.device().kind == DeviceKind::null ? empty({}, a.dtype(), a.device()) : to(made, a.device());
}

}  // namespace

Tensor add(const Tensor& a, double b) { return add(a, number_like(a, b)); }
Tensor sub(const Tensor& a, double b) { return sub(a, number_like(a, b)); }
Tensor mul(const Tensor& a, double b) { return mul(a, number_like(a, b)); }
Tensor div(const Tensor& a, double b) { return div(a, number_like(a, b)); }

namespace {

using rules::sum_to;

std::vector<OpCase> binary_cases(double low_b) {
  const auto two = [&](Shape a, Shape b) {
    return OpCase{{{.shape = a, .distinct = true}, {.shape = b, .low = low_b, .high = 2.3, .distinct = true}},
                  NoAttrs{}};
  };
  return {two({7}, {7}),    two({3, 5}, {5}),       two({3, 1}, {1, 4}), two({}, {2, 3}),
          two({0, 3}, {3}), two({2, 3, 4}, {3, 4}), two({4}, {}),        two({2, 1, 3}, {4, 1})};
}

OpDef binary(std::string name, std::string doc, double (*scalar)(const double*),
             std::function<TensorList(const GradCall&)> gradient, Saves saves, double low_b = -2) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"a", "b"},
          .infer = rules::infer_broadcast,
          .gradient = std::move(gradient),
          .shard = rules::shard_elementwise,
          .cases = [low_b] { return binary_cases(low_b); },
          .scalar = scalar,
          .saves = saves,
          .inplace = 0};
}

OpDef comparison(std::string name, std::string doc, double (*scalar)(const double*),
                 std::int64_t (*integer)(const std::int64_t*)) {
  OpDef op = binary(std::move(name), std::move(doc), scalar, nullptr, kSavesNothing);
  op.integer = integer;
  op.infer = rules::infer_broadcast_bool;
  op.inplace = -1;
  return op;
}

// Integers wrap around; signed overflow is not for C++ to decide.
std::int64_t wrap(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

std::int64_t divide(const std::int64_t* x) {
  check(x[1] != 0, "[div] expected a divisor other than 0, got {} / 0", x[0]);
  return x[1] == -1 ? wrap(-bits(x[0])) : x[0] / x[1];  // the least integer has no positive
}

TensorList grad_add(const GradCall& c) {
  return {c.needs(0) ? sum_to(c.grads[0], c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(c.grads[0], c.in[1].shape()) : Tensor()};
}

TensorList grad_sub(const GradCall& c) {
  return {c.needs(0) ? sum_to(c.grads[0], c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(neg(c.grads[0]), c.in[1].shape()) : Tensor()};
}

TensorList grad_mul(const GradCall& c) {
  return {c.needs(0) ? sum_to(mul(c.grads[0], c.in[1]), c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(mul(c.grads[0], c.in[0]), c.in[1].shape()) : Tensor()};
}

TensorList grad_div(const GradCall& c) {
  const Tensor da = div(c.grads[0], c.in[1]);
  return {c.needs(0) ? sum_to(da, c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(neg(div(mul(da, c.in[0]), c.in[1])), c.in[1].shape()) : Tensor()};
}

// A tie gives the gradient to the first operand.
TensorList grad_maximum(const GradCall& c) {
  const Tensor first = greater_equal(c.in[0], c.in[1]);
  const Tensor none = scalar(0, c.grads[0].dtype());
  return {sum_to(where(first, c.grads[0], none), c.in[0].shape()),
          sum_to(where(first, none, c.grads[0]), c.in[1].shape())};
}

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

void register_where(OpRegistry& ops) {
  ops.add({.name = "where",
           .doc = "a where the condition holds, else b.",
           .inputs = {"condition", "a", "b"},
           .infer = infer_where,
           .gradient = grad_where,
           .shard = rules::shard_elementwise,
           .cases =
               [] {
                 const auto three = [](Shape c, Shape a, Shape b) {
                   return OpCase{
                       {{.shape = c, .low = 0, .high = 1.99, .dtype = DType::boolean}, {.shape = a}, {.shape = b}},
                       NoAttrs{}};
                 };
                 return std::vector<OpCase>{three({7}, {7}, {7}), three({3, 5}, {5}, {3, 1}), three({2, 1}, {}, {2, 3}),
                                            three({0}, {0}, {0}), three({4}, {2, 4}, {})};
               },
           .scalar = [](const double* x) { return x[0] != 0 ? x[1] : x[2]; },
           .integer = [](const std::int64_t* x) { return x[0] != 0 ? x[1] : x[2]; },
           .saves = kSavesInputs});
}

}  // namespace

void register_ops_binary(OpRegistry& ops) {
  OpDef plus = binary(
      "add", "a + b", [](const double* x) { return x[0] + x[1]; }, grad_add, kSavesNothing);
  plus.commutative = true;
  plus.shard = rules::shard_additive;
  plus.integer = [](const std::int64_t* x) { return wrap(bits(x[0]) + bits(x[1])); };
  ops.add(plus);
  OpDef minus = binary(
      "sub", "a - b", [](const double* x) { return x[0] - x[1]; }, grad_sub, kSavesNothing);
  minus.shard = rules::shard_additive;
  minus.integer = [](const std::int64_t* x) { return wrap(bits(x[0]) - bits(x[1])); };
  ops.add(minus);
  OpDef times = binary(
      "mul", "a · b", [](const double* x) { return x[0] * x[1]; }, grad_mul, kSavesInputs);
  times.commutative = true;
  times.shard = rules::shard_multiplicative;
  times.integer = [](const std::int64_t* x) { return wrap(bits(x[0]) * bits(x[1])); };
  ops.add(times);
  OpDef over = binary(
      "div", "a / b; of integers, the quotient without its fraction.", [](const double* x) { return x[0] / x[1]; },
      grad_div, kSavesInputs, 0.3);
  over.shard = rules::shard_multiplicative;
  over.integer = divide;
  ops.add(over);
  OpDef larger = binary(
      "maximum", "The larger of a and b.", [](const double* x) { return x[0] >= x[1] || x[0] != x[0] ? x[0] : x[1]; },
      grad_maximum, kSavesInputs);
  larger.commutative = true;
  larger.integer = [](const std::int64_t* x) { return x[0] >= x[1] ? x[0] : x[1]; };
  ops.add(larger);
  ops.add(comparison(
      "equal", "a = b", [](const double* x) { return double(x[0] == x[1]); },
      [](const std::int64_t* x) { return std::int64_t{x[0] == x[1]}; }));
  ops.add(comparison(
      "not_equal", "a ≠ b", [](const double* x) { return double(x[0] != x[1]); },
      [](const std::int64_t* x) { return std::int64_t{x[0] != x[1]}; }));
  ops.add(comparison(
      "less", "a < b", [](const double* x) { return double(x[0] < x[1]); },
      [](const std::int64_t* x) { return std::int64_t{x[0] < x[1]}; }));
  ops.add(comparison(
      "less_equal", "a ≤ b", [](const double* x) { return double(x[0] <= x[1]); },
      [](const std::int64_t* x) { return std::int64_t{x[0] <= x[1]}; }));
  ops.add(comparison(
      "greater", "a > b", [](const double* x) { return double(x[0] > x[1]); },
      [](const std::int64_t* x) { return std::int64_t{x[0] > x[1]}; }));
  ops.add(comparison(
      "greater_equal", "a ≥ b", [](const double* x) { return double(x[0] >= x[1]); },
      [](const std::int64_t* x) { return std::int64_t{x[0] >= x[1]}; }));
  register_where(ops);
}

}  // namespace starling
