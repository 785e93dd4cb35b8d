#include "starling/ops/api/rounding.h"

#include <cmath>

#include "starling/ops/def/apply.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"

namespace starling {

Tensor floor(const Tensor& x) { return apply1(named_op<"floor">(), {x}); }
Tensor ceil(const Tensor& x) { return apply1(named_op<"ceil">(), {x}); }
Tensor round(const Tensor& x) { return apply1(named_op<"round">(), {x}); }
Tensor trunc(const Tensor& x) { return apply1(named_op<"trunc">(), {x}); }

namespace {

OpDef rounding(std::string name, std::string doc, elementwise::Scalar scalar) {
  OpDef op = elementwise::unary(std::move(name), std::move(doc), scalar, nullptr, kSavesNothing);
  op.infer = elementwise::infer_number;
  op.integer = [](const std::int64_t* x) { return x[0]; };
  op.cases = [] {
    auto cases = elementwise::cases_of_one({-5.5, 5});
    for (const auto& more : elementwise::whole_cases(1, {-9, 9}, {DType::i32, DType::i64})) cases.push_back(more);
    return cases;
  };
  return op;
}

}  // namespace

void register_ops_rounding(OpRegistry& ops) {
  ops.add(rounding("floor", "The largest whole number ≤ x.", [](const double* x) { return std::floor(x[0]); }));
  ops.add(rounding("ceil", "The smallest whole number ≥ x.", [](const double* x) { return std::ceil(x[0]); }));
  ops.add(rounding("round", "The nearest whole number; halves go to the even one.",
                   [](const double* x) { return std::nearbyint(x[0]); }));
  ops.add(rounding("trunc", "x without its fraction.", [](const double* x) { return std::trunc(x[0]); }));
}

}  // namespace starling
