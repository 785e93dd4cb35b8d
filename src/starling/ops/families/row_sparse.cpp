#include "starling/ops/api/row_sparse.h"

#include <set>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/embedding.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/attrs/row_sparse.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/learning_rate.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/scopes/call_site.h"

namespace starling {
namespace {

const RowSparse& parts(const Tensor& tensor, const char* who) {
  check(is_row_sparse(tensor), "[{}] expected a row-sparse tensor, got {}", who,
        tensor.defined() ? "a dense " + to_string(tensor.type()) : "an empty handle");
  return tensor.impl()->extra->rare->sparse;
}

}  // namespace

bool is_row_sparse(const Tensor& tensor) { return tensor.defined() && tensor.impl()->row_sparse; }
Tensor rows_of(const Tensor& sparse) { return parts(sparse, "rows_of").rows; }
Tensor row_values(const Tensor& sparse) { return parts(sparse, "row_values").values; }

Tensor row_sparse(const Tensor& rows, const Tensor& values, const Shape& shape) {
  bool fits = rows.dtype() == DType::i64 && rows.rank() == 1 && values.rank() == shape.rank() && shape.rank() > 0 &&
              values.shape()[0] == rows.shape()[0];
  for (int i = 1; fits && i < shape.rank(); ++i) fits = values.shape()[i] == shape[i];
  check(fits, "[row_sparse] expected rows i64[n] and values [n, …] for {}, got {} and {}", to_string(shape),
        to_string(rows.type()), to_string(values.type()));
  Ref<TensorImpl> impl = new TensorImpl;
  impl->dtype = values.dtype();
  impl->device = values.device();
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->tracer = values.traced() ? values.impl()->tracer : rows.impl()->tracer;
  impl->row_sparse = true;
  impl->more().more().sparse = {rows, values};
  return Tensor(std::move(impl));
}

Tensor dense(const Tensor& tensor) {
  if (!is_row_sparse(tensor)) return tensor;
  const RowSparse& p = parts(tensor, "dense");
  return op::embedding_backward(p.values, p.rows, {tensor.shape()[0], -1});
}

Tensor coalesce(const Tensor& sparse, SourceLocation where) {
  const CallSite site(where);
  const RowSparse& p = parts(sparse, "coalesce");
  const TensorList merged = apply(named_op<"coalesce_rows">(), {p.rows, p.values});
  return row_sparse(merged[0], merged[1], sparse.shape());
}

Tensor op::add_gradients(const Tensor& a, const Tensor& b) {
  if (!is_row_sparse(a) || !is_row_sparse(b)) return add(a, b);
  constexpr std::int64_t kFew = 1024;  // number of entries not worth coalescing
  const Tensor rows[] = {rows_of(a), rows_of(b)}, values[] = {row_values(a), row_values(b)};
  const std::int64_t entries = rows[0].numel() + rows[1].numel();
  if (a.traced() || b.traced()) {
    if (entries >= a.shape()[0]) return add(a, b);
    return row_sparse(concat(rows), concat(values), a.shape());
  }
  Tensor both = row_sparse(concat(rows), concat(values), a.shape());
  if (entries < kFew && entries < a.shape()[0]) return both;
  // Coalescing has no gradient: use the dense form for higher derivatives.
  return row_values(both).requires_grad() ? dense(both) : coalesce(both);
}

void op::sgd_update_rows(const Tensor& w, const Tensor& v, const Tensor& rows, const Tensor& values, const Tensor& lr,
                         const op::SgdAttrs& attrs) {
  const Tensor in[] = {w, v, rows, values, lr};
  const Tensor targets[] = {w, v};
  apply_into(named_op<"sgd_update_rows">(), in, attrs, targets);
}

namespace {

void expect_pair(const InferCall& call, const TensorType& rows, const TensorType& values) {
  check(rows.dtype == DType::i64 && rows.shape.rank() == 1 && is_float(values.dtype) && values.shape.rank() > 0 &&
            values.shape[0] == rows.shape[0],
        "[{}] expected rows i64[n] and values of n rows of floats, got {} and {}", call.op.name, to_string(rows),
        to_string(values));
}

Types infer_sgd_rows(const InferCall& call) {
  rules::expect_float(call);
  expect_pair(call, call.in[2], call.in[3]);
  TensorType whole = call.in[3];
  const bool ranks = call.in[0].shape.rank() == whole.shape.rank();
  if (ranks) whole.shape[0] = call.in[0].shape[0];
  check(ranks && call.in[0] == whole && call.in[1] == whole,
        "[sgd_update_rows] expected w and v alike, and values like their rows, got {}, {} and {}",
        to_string(call.in[0]), to_string(call.in[1]), to_string(call.in[3]));
  check(op::is_rate(call.in[4], call.in[0]), "[sgd_update_rows] expected lr f32[], or f64[] for weights of f64, got {}",
        to_string(call.in[4]));
  return {call.in[0], call.in[1]};
}

Types infer_coalesce(const InferCall& call) {
  expect_pair(call, call.in[0], call.in[1]);
  return {call.in[0], call.in[1]};
}

Types measure_coalesce(std::span<const Tensor> in, const Attrs&) {
  const auto* rows = in[0].data<std::int64_t>();
  const std::set<std::int64_t> distinct(rows, rows + in[0].numel());
  if (!distinct.empty() && *distinct.begin() < 0)
    fail("[coalesce_rows] expected rows of at least 0, got {}", *distinct.begin());
  const auto n = static_cast<std::int64_t>(distinct.size());
  Shape values = in[1].shape();
  values[0] = n;
  return {TensorType{DType::i64, {n}}, TensorType{in[1].dtype(), values}};
}

CaseInput rows_case(std::int64_t n, std::int64_t bound) {
  return {.shape = {n}, .low = 0, .high = static_cast<double>(bound), .dtype = DType::i64};
}

std::vector<OpCase> sgd_rows_cases() {
  const auto one = [](const Shape& w, std::int64_t n, op::SgdAttrs a) {
    Shape values = w;
    values[0] = n;
    const CaseInput lr{.shape = {}, .low = 0.01, .high = 0.1, .dtype = DType::f32};
    return OpCase{{{.shape = w}, {.shape = w}, rows_case(n, w[0]), {.shape = values}, lr}, a};
  };
  return {one({5, 3}, 4, {}),    one({4, 33}, 9, {0.9, 0.01, true}), one({7}, 20, {0.5}), one({6, 2, 3}, 2, {0, 0.1}),
          one({3, 4}, 0, {0.9}), one({1, 17}, 6, {0.9, 0.01, false})};
}

std::vector<OpCase> coalesce_cases() {
  const auto one = [](const Shape& values, std::int64_t bound) {
    return OpCase{{rows_case(values[0], bound), {.shape = values}}, op::NoAttrs{}};
  };
  return {one({5, 3}, 3), one({9, 20}, 4), one({8}, 100), one({0, 2}, 3), one({6, 2, 2}, 1), one({40, 2}, 3000)};
}

double flops_of_sgd_rows(const CostCall& call) { return costs::sgd_each(call) * costs::elements(call.in[3]); }

}  // namespace

void register_ops_row_sparse(OpRegistry& ops) {
  ops.add({.name = "sgd_update_rows",
           .doc = "sgd_update of the rows that occur, with the sums of their values as gradients.",
           .inputs = {"w", "v", "rows", "values", "lr"},
           .outputs = {"w", "v"},
           .attrs = &attr_type<op::SgdAttrs>(),
           .infer = infer_sgd_rows,
           .shard = rules::shard_replicated,
           .cases = sgd_rows_cases,
           .inplace = 0,
           .cost = {flops_of_sgd_rows},
           .precision = Width::wide});
  ops.add({.name = "coalesce_rows",
           .doc = "Every row once, in ascending order, with the sum of its values.",
           .inputs = {"rows", "values"},
           .outputs = {"rows", "values"},
           .infer = infer_coalesce,
           .cases = coalesce_cases,
           .measure = measure_coalesce,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
