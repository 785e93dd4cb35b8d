#include "starling/ops/api/sparse.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/sparse.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor csr_matmul(const Tensor& row_offsets, const Tensor& columns, const Tensor& values, const Tensor& dense) {
  return apply1(named_op<"csr_matmul">(), {row_offsets, columns, values, dense}, op::CsrAttrs{});
}
Tensor csr_matmul_transposed(const Tensor& row_offsets, const Tensor& columns, const Tensor& values,
                             const Tensor& dense, std::int64_t k) {
  return apply1(named_op<"csr_matmul">(), {row_offsets, columns, values, dense}, op::CsrAttrs{true, k});
}
Tensor csr_sample(const Tensor& row_offsets, const Tensor& columns, const Tensor& a, const Tensor& b) {
  return apply1(named_op<"csr_sample">(), {row_offsets, columns, a, b});
}

namespace {

// Checks offsets and columns; returns the rows of the sparse matrix.
std::int64_t check_places(const InferCall& call) {
  const TensorType &offsets = call.in[0], &columns = call.in[1];
  check(offsets.dtype == DType::i64 && offsets.shape.rank() == 1 && offsets.shape[0] > 0,
        "[{}] expected row_offsets i64[rows + 1], got {}", call.op.name, to_string(offsets));
  check(columns.dtype == DType::i64 && columns.shape.rank() == 1, "[{}] expected columns i64[nnz], got {}",
        call.op.name, to_string(columns));
  return offsets.shape[0] - 1;
}

Types infer_matmul(const InferCall& call) {
  const auto& at = call.attrs.as<op::CsrAttrs>();
  const auto rows = check_places(call);
  const TensorType &values = call.in[2], &dense = call.in[3];
  rules::expect_float(call, 2);
  check(values.shape == call.in[1].shape && dense.dtype == values.dtype && dense.shape.rank() == 2,
        "[csr_matmul] expected values {} and a dense matrix of their dtype, got {} and {}", to_string(call.in[1].shape),
        to_string(values), to_string(dense));
  if (!at.trans) return {TensorType{values.dtype, {rows, dense.shape[1]}}};
  check(at.columns >= 0, "[csr_matmul] expected columns of 0 or more, got {}", at.columns);
  check(dense.shape[0] == rows, "[csr_matmul] expected a dense matrix of {} rows, got {}", rows, to_string(dense));
  return {TensorType{values.dtype, {at.columns, dense.shape[1]}}};
}

TensorList grad_matmul(const GradCall& c) {
  const Tensor &offsets = c.in[0], &columns = c.in[1], &values = c.in[2], &dense = c.in[3], &g = c.grads[0];
  const bool trans = c.attrs.as<op::CsrAttrs>().trans;
  TensorList out(4);
  if (c.needs(2)) out[2] = trans ? csr_sample(offsets, columns, dense, g) : csr_sample(offsets, columns, g, dense);
  if (c.needs(3)) {
    out[3] = trans ? csr_matmul(offsets, columns, values, g)
                   : csr_matmul_transposed(offsets, columns, values, g, dense.shape()[0]);
  }
  return out;
}

Types infer_sample(const InferCall& call) {
  const auto rows = check_places(call);
  const TensorType &a = call.in[2], &b = call.in[3];
  rules::expect_float(call, 2);
  check(a.dtype == b.dtype && a.shape.rank() == 2 && b.shape.rank() == 2 && a.shape[0] == rows &&
            a.shape[1] == b.shape[1],
        "[csr_sample] expected a [{}, n] and b [columns, n] of one dtype, got {} and {}", rows, to_string(a),
        to_string(b));
  return {TensorType{a.dtype, call.in[1].shape}};
}

TensorList grad_sample(const GradCall& c) {
  const Tensor &offsets = c.in[0], &columns = c.in[1], &a = c.in[2], &b = c.in[3], &g = c.grads[0];
  TensorList out(4);
  if (c.needs(2)) out[2] = csr_matmul(offsets, columns, g, b);
  if (c.needs(3)) out[3] = csr_matmul_transposed(offsets, columns, g, a, b.shape()[0]);
  return out;
}

// Columns of the dense matrix may be split, with the sparse one replicated.
ShardRule shard_columns(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  if (call.layouts[3].is_split(1)) rule.in[3] = rule.out[0] = call.layouts[3];
  return rule;
}

// The summed dimension may be split: every value is then partial.
ShardRule shard_sample(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  if (!call.layouts[2].is_split(1) && !call.layouts[3].is_split(1)) return rule;
  rule.in[2] = rule.in[3] = Layout::split(1);
  rule.out[0] = Layout::partial();
  return rule;
}

struct Sizes {
  std::int64_t m, k, n, each;  // about `each` values per row
};

// Row i begins between i and i + 1 times `each`: some rows are empty, some twice as long.
std::vector<CaseInput> places(const Sizes& s) {
  const double step = static_cast<double>(s.each);
  return {{.shape = {s.m + 1}, .low = 0, .high = step + 0.99, .dtype = DType::i64, .diagonal = step},
          {.shape = {(s.m + 1) * s.each}, .low = 0, .high = static_cast<double>(s.k) - 0.01, .dtype = DType::i64}};
}

const Sizes kSizes[] = {{3, 4, 5, 2}, {1, 1, 1, 1}, {5, 3, 20, 2}, {4, 6, 1, 3},
                        {3, 4, 0, 2}, {0, 4, 3, 1}, {4, 3, 2, 0},  {7, 9, 17, 1}};

std::vector<OpCase> matmul_cases() {
  std::vector<OpCase> cases;
  for (const bool trans : {false, true}) {
    for (const Sizes& s : kSizes) {
      OpCase c{places(s), trans ? op::CsrAttrs{true, s.k} : op::CsrAttrs{}};
      c.in.push_back({.shape = {(s.m + 1) * s.each}});
      c.in.push_back({.shape = {trans ? s.m : s.k, s.n}});
      cases.push_back(c);
    }
  }
  return cases;
}

std::vector<OpCase> sample_cases() {
  std::vector<OpCase> cases;
  for (const Sizes& s : kSizes) {
    OpCase c{places(s), op::NoAttrs{}};
    c.in.push_back({.shape = {s.m, s.n}});
    c.in.push_back({.shape = {s.k, s.n}});
    cases.push_back(c);
  }
  return cases;
}

double flops_of_csr_matmul(const CostCall& call) {
  return 2 * costs::elements(call.in[2]) * costs::size(call.in[3], -1);
}
double flops_of_csr_sample(const CostCall& call) {
  return 2 * costs::elements(call.in[1]) * costs::size(call.in[2], -1);
}

}  // namespace

void register_ops_sparse(OpRegistry& ops) {
  ops.add({.name = "csr_matmul",
           .doc = "A sparse matrix by rows, or its transpose, times a dense one.",
           .inputs = {"row_offsets", "columns", "values", "dense"},
           .attrs = &attr_type<op::CsrAttrs>(),
           .infer = infer_matmul,
           .gradient = grad_matmul,
           .shard = shard_columns,
           .cases = matmul_cases,
           .saves = kSavesInputs,
           .cost = {flops_of_csr_matmul},
           .precision = Width::wide});
  ops.add({.name = "csr_sample",
           .doc = "a · bᵀ at the places of a sparse matrix only.",
           .inputs = {"row_offsets", "columns", "a", "b"},
           .outputs = {"values"},
           .infer = infer_sample,
           .gradient = grad_sample,
           .shard = shard_sample,
           .cases = sample_cases,
           .saves = kSavesInputs,
           .cost = {flops_of_csr_sample},
           .precision = Width::wide});
}

}  // namespace starling
