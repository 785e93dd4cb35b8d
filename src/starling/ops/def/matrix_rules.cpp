#include "starling/ops/def/matrix_rules.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/linalg.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/triangular.h"
#include "starling/ops/def/rules.h"

namespace starling::rules {

void expect_matrix(const InferCall& call) {
  constexpr std::int64_t kMost = 20000;  // workspaces of LAPACK have up to 4 n² elements, counted in 31 bits
  expect_float(call);
  const Shape& a = call.in[0].shape;
  check(a.rank() >= 2, "[{}] expected matrices, got {}", call.op.name, to_string(call.in[0]));
  check(a[a.rank() - 2] <= kMost && a.back() <= kMost, "[{}] expected matrices of at most {} rows and columns, got {}",
        call.op.name, kMost, to_string(call.in[0]));
}

void expect_square(const InferCall& call) {
  expect_matrix(call);
  const Shape& a = call.in[0].shape;
  check(a[a.rank() - 2] == a.back(), "[{}] expected square matrices, got {}", call.op.name, to_string(call.in[0]));
}

Shape batch_of(const Shape& shape) {
  Shape batch = shape;
  batch.erase(batch.rank() - 1);
  batch.erase(batch.rank() - 1);
  return batch;
}

Shape matrices(Shape batch, std::int64_t rows, std::int64_t cols) {
  batch.push_back(rows);
  batch.push_back(cols);
  return batch;
}

Tensor as_matrix(const Tensor& x) { return reshape(x, matrices(x.shape(), 1, 1)); }

Tensor lower_half(std::int64_t n, DType dtype) { return sub(tril(full({n, n}, 1, dtype)), mul(eye(n, n, dtype), 0.5)); }

ShardRule shard_matrices(const ShardCall& call) {
  ShardRule rule = shard_replicated(call);
  const int batch = call.in[0].shape.rank() - 2;
  for (const auto& layout : call.layouts) {
    if (!layout.is_split() || layout.dim >= batch) continue;
    for (auto& in : rule.in) in = layout;
    for (auto& out : rule.out) out = layout;
    break;
  }
  return rule;
}

OpCase square_case(const Shape& shape, double diagonal, const Attrs& attrs) {
  return {{{.shape = shape, .low = -1, .high = 1, .diagonal = diagonal}}, attrs};
}

}  // namespace starling::rules
