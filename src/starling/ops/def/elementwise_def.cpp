#include "starling/ops/def/elementwise_def.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/rules.h"

namespace starling::elementwise {

using rules::sum_to;

Tensor promoted(const OpDef& op, const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.dtype() == b.dtype()) return apply1(op, {a, b});
  const DType dtype = promote(a.dtype(), b.dtype());
  return apply1(op, {cast(a, dtype), cast(b, dtype)});
}

Tensor number_like(const Tensor& a, double value) {
  Tensor made = scalar(value, a.dtype());
  if (made.traced() || a.device() == kCpu) return made;
  return a.device().kind == DeviceKind::null ? empty({}, a.dtype(), a.device()) : to(made, a.device());
}

namespace {

// Assigns the attributes to the cases in turn.
std::vector<OpCase> with_attrs(std::vector<OpCase> cases, const std::vector<Attrs>& attrs) {
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i].attrs = attrs[i % attrs.size()];
  return cases;
}

CaseInput operand(const Shape& shape, Range range) {
  return {.shape = shape, .low = range.low, .high = range.high, .distinct = true};
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes = {{7}, {3, 5}, {}, {0, 3}, {2, 3, 4}, {1, 17}, {33}, {5, 1, 2}, {4, 9}};
  return kShapes;
}

}  // namespace

std::vector<OpCase> cases_of_one(Range x, const std::vector<Attrs>& attrs) { return cases_alike({x}, attrs); }

std::vector<OpCase> cases_of_two(Range a, Range b, const std::vector<Attrs>& attrs) {
  const auto two = [&](Shape first, Shape second) { return OpCase{{operand(first, a), operand(second, b)}, {}}; };
  return with_attrs({two({7}, {7}), two({3, 5}, {5}), two({3, 1}, {1, 4}), two({}, {2, 3}), two({0, 3}, {3}),
                     two({2, 3, 4}, {3, 4}), two({4}, {}), two({2, 1, 3}, {4, 1}), two({2, 19}, {2, 19})},
                    attrs);
}

std::vector<OpCase> cases_alike(const std::vector<Range>& operands, const std::vector<Attrs>& attrs) {
  std::vector<OpCase> cases;
  for (const auto& shape : shapes()) {
    OpCase one;
    for (const auto& range : operands) one.in.push_back(operand(shape, range));
    cases.push_back(one);
  }
  return with_attrs(std::move(cases), attrs);
}

std::vector<OpCase> whole_cases(int operands, Range range, const std::vector<DType>& dtypes) {
  std::vector<OpCase> cases;
  for (DType dtype : dtypes) {
    for (const Shape& shape : {Shape{37}, Shape{2, 3}, Shape{0, 2}}) {
      OpCase one;
      for (int i = 0; i < operands; ++i)
        one.in.push_back({.shape = shape, .low = range.low, .high = range.high, .dtype = dtype});
      cases.push_back(one);
    }
    if (operands > 1) {
      cases.push_back(cases.back());
      cases.back().in[0].shape = {3, 1};
      cases.back().in[1].shape = {19};
    }
  }
  return cases;
}

void expect_number(const InferCall& call) {
  check(call.in[0].dtype != DType::boolean, "[{}] expected numbers, got {}", call.op.name, to_string(call.in[0]));
}

void expect_finite(const InferCall& call) {
  const Numbers values = numbers_of(call.attrs);
  for (std::size_t i = 0; i < values.size(); ++i) {
    check(std::isfinite(values[i]), "[{}] expected a finite {}, got {}", call.op.name, call.op.attrs->fields[i].name,
          values[i]);
  }
}

Types infer_float(const InferCall& call) {
  rules::expect_float(call);
  expect_finite(call);
  return rules::infer_same(call);
}

Types infer_number(const InferCall& call) {
  expect_number(call);
  return rules::infer_same(call);
}

Types infer_broadcast_float(const InferCall& call) {
  rules::expect_float(call);
  expect_finite(call);
  return rules::infer_broadcast(call);
}

Types infer_broadcast_number(const InferCall& call) {
  expect_number(call);
  return rules::infer_broadcast(call);
}

Types infer_test(const InferCall& call) {
  rules::expect_float(call);
  return {TensorType{DType::boolean, call.in[0].shape}};
}

OpDef unary(std::string name, std::string doc, Scalar scalar, Gradient gradient, Saves saves, Range range) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"x"},
          .infer = infer_float,
          .gradient = std::move(gradient),
          .shard = rules::shard_elementwise,
          .cases = [range] { return cases_of_one(range); },
          .scalar = scalar,
          .saves = saves,
          .inplace = 0};
}

OpDef binary(std::string name, std::string doc, Scalar scalar, Gradient gradient, Saves saves, Range b) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"a", "b"},
          .infer = rules::infer_broadcast,
          .gradient = std::move(gradient),
          .shard = rules::shard_elementwise,
          .cases = [b] { return cases_of_two({}, b); },
          .scalar = scalar,
          .saves = saves,
          .inplace = 0};
}

OpDef backward(std::string name, std::string doc, Scalar scalar, Curvature curvature, Range x) {
  const auto gradient = [curvature](const GradCall& c) {
    const Tensor& g = c.grads[0];
    const auto to_x = [&] { return sum_to(curvature(mul(g, c.in[0]), c.in[1], c.attrs), c.in[1].shape()); };
    return TensorList{c.needs(0) ? sum_to(apply1(c.op, {g, c.in[1]}, c.attrs), c.in[0].shape()) : Tensor(),
                      c.needs(1) && curvature ? to_x() : Tensor()};
  };
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"dy", "x"},
          .infer = infer_broadcast_float,
          .gradient = gradient,
          .shard = rules::shard_elementwise,
          .cases =
              [x] {
                return cases_alike({{}, x});
              },
          .scalar = scalar,
          .saves = kSavesInputs,
          .inplace = 0};
}

OpDef wide(OpDef op) {
  op.precision = Width::wide;
  return op;
}
OpDef in_epilogue(OpDef op) {
  op.in_epilogue = true;
  return op;
}

}  // namespace starling::elementwise
