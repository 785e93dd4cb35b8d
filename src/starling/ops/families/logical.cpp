#include "starling/ops/api/logical.h"

#include <cmath>

#include "starling/ops/def/apply.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

using elementwise::promoted;

Tensor logical_and(const Tensor& a, const Tensor& b) { return promoted(named_op<"logical_and">(), a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return promoted(named_op<"logical_or">(), a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return promoted(named_op<"logical_xor">(), a, b); }
Tensor logical_not(const Tensor& x) { return apply1(named_op<"logical_not">(), {x}); }
Tensor isnan(const Tensor& x) { return apply1(named_op<"isnan">(), {x}); }
Tensor isinf(const Tensor& x) { return apply1(named_op<"isinf">(), {x}); }
Tensor isfinite(const Tensor& x) { return apply1(named_op<"isfinite">(), {x}); }

namespace {

// Sample calls with floats, integers and bools: small whole numbers, often 0.
std::vector<OpCase> truth_cases(int operands) {
  auto cases = elementwise::whole_cases(operands, {-1, 2}, {DType::i32, DType::i64});
  for (const auto& more : elementwise::whole_cases(operands, {0, 1.99}, {DType::boolean})) cases.push_back(more);
  if (operands == 1) cases.push_back({{{.shape = {19}}}, op::NoAttrs{}});
  if (operands == 2) cases.push_back({{{.shape = {3, 1}}, {.shape = {1, 7}}}, op::NoAttrs{}});
  if (operands == 2) {
    const CaseInput a{.shape = {4, 1}, .low = 0, .high = 1.99, .dtype = DType::boolean};
    const CaseInput b{.shape = {70}, .low = 0, .high = 1.99, .dtype = DType::boolean};
    cases.push_back({{a, b}, op::NoAttrs{}});
  }
  return cases;
}

OpDef connective(std::string name, std::string doc, elementwise::Scalar scalar, elementwise::Integer integer) {
  OpDef op = elementwise::binary(std::move(name), std::move(doc), scalar, nullptr, kSavesNothing);
  op.infer = rules::infer_broadcast_bool;
  op.integer = integer;
  op.cases = [] { return truth_cases(2); };
  op.commutative = true;
  op.inplace = -1;
  return op;
}

OpDef test(std::string name, std::string doc, elementwise::Scalar scalar) {
  OpDef op = elementwise::unary(std::move(name), std::move(doc), scalar, nullptr, kSavesNothing);
  op.infer = elementwise::infer_test;
  op.inplace = -1;
  return op;
}

}  // namespace

void register_ops_logical(OpRegistry& ops) {
  ops.add(connective(
      "logical_and", "Whether neither is 0.", [](const double* x) { return double(x[0] != 0 && x[1] != 0); },
      [](const std::int64_t* x) { return std::int64_t{x[0] != 0 && x[1] != 0}; }));
  ops.add(connective(
      "logical_or", "Whether one of the two is not 0.", [](const double* x) { return double(x[0] != 0 || x[1] != 0); },
      [](const std::int64_t* x) { return std::int64_t{x[0] != 0 || x[1] != 0}; }));
  ops.add(connective(
      "logical_xor", "Whether exactly one of the two is not 0.",
      [](const double* x) { return double((x[0] != 0) != (x[1] != 0)); },
      [](const std::int64_t* x) { return std::int64_t{(x[0] != 0) != (x[1] != 0)}; }));
  OpDef negation = test("logical_not", "Whether x is 0.", [](const double* x) { return double(x[0] == 0); });
  negation.infer = [](const InferCall& call) { return Types{{DType::boolean, call.in[0].shape}}; };
  negation.integer = [](const std::int64_t* x) { return std::int64_t{x[0] == 0}; };
  negation.cases = [] { return truth_cases(1); };
  ops.add(negation);
  ops.add(test("isnan", "Whether x is no number.", [](const double* x) { return double(std::isnan(x[0])); }));
  ops.add(test("isinf", "Whether x is infinite.", [](const double* x) { return double(std::isinf(x[0])); }));
  ops.add(
      test("isfinite", "Whether x is a finite number.", [](const double* x) { return double(std::isfinite(x[0])); }));
}

}  // namespace starling
