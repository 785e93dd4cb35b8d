#include "starling/ops/api/binary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

using elementwise::number_like;
using elementwise::promoted;

Tensor equal(const Tensor& a, const Tensor& b) { return promoted(named_op<"equal">(), a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return promoted(named_op<"not_equal">(), a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return promoted(named_op<"less">(), a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return promoted(named_op<"less_equal">(), a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return promoted(named_op<"greater">(), a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return promoted(named_op<"greater_equal">(), a, b); }

Tensor equal(const Tensor& a, double b) { return equal(a, number_like(a, b)); }
Tensor not_equal(const Tensor& a, double b) { return not_equal(a, number_like(a, b)); }
Tensor less(const Tensor& a, double b) { return less(a, number_like(a, b)); }
Tensor less_equal(const Tensor& a, double b) { return less_equal(a, number_like(a, b)); }
Tensor greater(const Tensor& a, double b) { return greater(a, number_like(a, b)); }
Tensor greater_equal(const Tensor& a, double b) { return greater_equal(a, number_like(a, b)); }

namespace {

OpDef comparison(std::string name, std::string doc, elementwise::Scalar scalar, elementwise::Integer integer) {
  OpDef op = elementwise::binary(std::move(name), std::move(doc), scalar, nullptr, kSavesNothing);
  op.integer = integer;
  op.infer = [](const InferCall& call) {
    rules::expect_ordered(call);
    return rules::infer_broadcast_bool(call);
  };
  op.inplace = -1;
  op.broadcasts = true;
  return op;
}

// Equality has vector kernels for bools too.
OpDef equality(std::string name, std::string doc, elementwise::Scalar scalar, elementwise::Integer integer) {
  OpDef op = comparison(std::move(name), std::move(doc), scalar, integer);
  op.infer = rules::infer_broadcast_bool;  // u64 too: equality ignores the sign
  op.commutative = true;
  op.cases = [] {
    auto cases = elementwise::cases_of_two({}, {-2, 2.3});
    for (const auto& more : elementwise::whole_cases(2, {-2, 3}, {DType::i32, DType::i64})) cases.push_back(more);
    for (const auto& more : elementwise::whole_cases(2, {0, 1.99}, {DType::boolean})) cases.push_back(more);
    return cases;
  };
  return op;
}

}  // namespace

void register_ops_comparison(OpRegistry& ops) {
  ops.add(equality(
      "equal", "a = b", [](const double* x) { return double(x[0] == x[1]); },
      [](const std::int64_t* x) { return std::int64_t{x[0] == x[1]}; }));
  ops.add(equality(
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
}

}  // namespace starling
