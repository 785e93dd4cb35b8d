#include "starling/ops/def/attrs/shared_update.h"

#include "starling/base/error.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/learning_rate.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
namespace {

Types infer_sgd_rows(const InferCall& call) {
  rules::expect_float(call);
  const std::int64_t begin = call.attrs.as<op::RowsSgdAttrs>().begin;
  const Shape &w = call.in[0].shape, &a = call.in[2].shape, &b = call.in[3].shape;
  check(op::is_rate(call.in[4], call.in[0]), "[matmul_sgd_rows] expected lr f32[], or f64[] for weights of f64, got {}",
        to_string(call.in[4]));
  check(w.rank() == 2 && call.in[0] == call.in[1], "[matmul_sgd_rows] expected matrices w and v alike, got {} and {}",
        to_string(call.in[0]), to_string(call.in[1]));
  const bool fits = a.rank() == 2 && b.rank() == 2 && a[0] == b[0] && b[1] == w[1] && begin >= 0 &&
                    begin <= w[0] - a[1] && call.in[2].dtype == call.in[0].dtype &&
                    call.in[3].dtype == call.in[0].dtype;
  check(fits, "[matmul_sgd_rows] expected factors of rows from {} on of {}, got {} and {}", begin,
        to_string(call.in[0]), to_string(call.in[2]), to_string(call.in[3]));
  return {call.in[0], call.in[1]};
}

// Decomposition into the rows before, the updated rows and the rows after.
TensorList sgd_rows_of_parts(std::span<const Tensor> in, const Attrs& attrs) {
  const auto& at = attrs.as<op::RowsSgdAttrs>();
  const std::int64_t begin = at.begin, end = begin + in[2].size(1), rows = in[0].size(0);
  const auto part = [](const Tensor& x, std::int64_t from, std::int64_t to) {
    return slice(x, {.axis = 0, .begin = from, .end = to});
  };
  const Tensor own[] = {part(in[0], begin, end), part(in[1], begin, end), in[2], in[3], in[4]};
  const TensorList made =
      apply(find_op("matmul_sgd"), own, op::MatmulSgdAttrs{true, false, at.momentum, at.weight_decay});
  TensorList out;
  for (std::size_t i = 0; i < 2; ++i) out.push_back(concat({part(in[i], 0, begin), made[i], part(in[i], end, rows)}));
  return out;
}

double flops_of_matmul_sgd_rows(const CostCall& call) {
  return costs::size(call.in[2], -1) * costs::size(call.in[3], -1) *
         (2 * costs::size(call.in[2], 0) + costs::sgd_each(call));
}

}  // namespace

void register_ops_shared_update(OpRegistry& ops) {
  ops.add({.name = "matmul_sgd_rows",
           .doc = "One step of SGD for some rows of a matrix, with the gradient matmul(aᵀ, b), which is never stored.",
           .inputs = {"w", "v", "a", "b", "lr"},
           .outputs = {"w", "v"},
           .attrs = &attr_type<op::RowsSgdAttrs>(),
           .infer = infer_sgd_rows,
           .decompose = sgd_rows_of_parts,
           .cases =
               [] {
                 const CaseInput lr{.shape = {}, .low = 0.01, .high = 0.1, .dtype = DType::f32}, w{.shape = {20, 33}};
                 const auto one = [&](std::int64_t rows, op::RowsSgdAttrs a) {
                   return OpCase{{w, w, {.shape = {9, rows}}, {.shape = {9, 33}}, lr}, a};
                 };
                 return std::vector<OpCase>{one(7, {5, 0.9, 0.01}), one(20, {0, 0.5, 0}), one(3, {17, 0.9, 0})};
               },
           .inplace = 0,
           .cost = {flops_of_matmul_sgd_rows},
           .precision = Width::wide});
}

}  // namespace starling
