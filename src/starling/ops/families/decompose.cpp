#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/linalg.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/matrix_rules.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Qr qr(const Tensor& a) {
  TensorList out = apply(named_op<"qr">(), {a});
  return {out[0], out[1]};
}
Svd svd(const Tensor& a) {
  TensorList out = apply(named_op<"svd">(), {a});
  return {out[0], out[1], out[2]};
}
Eigh eigh(const Tensor& a) {
  TensorList out = apply(named_op<"eigh">(), {a});
  return {out[0], out[1]};
}

namespace {

using rules::batch_of;
using rules::matrices;
using rules::shard_matrices;

// Products with the left or the right factor transposed.
Tensor tn(const Tensor& a, const Tensor& b) { return matmul(a, b, {.trans_a = true}); }
Tensor nt(const Tensor& a, const Tensor& b) { return matmul(a, b, {.trans_b = true}); }
Tensor sum_of(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : add(a, b); }

Tensor identity(std::int64_t n, DType dtype) { return eye(n, n, dtype); }

// Vectors [.., k] shaped to multiply the columns, or the rows, of matrices.
Tensor as_row(const Tensor& v) {
  Shape shape = v.shape();
  shape.insert(shape.rank() - 1, 1);
  return reshape(v, shape);
}
Tensor as_column(const Tensor& v) {
  Shape shape = v.shape();
  shape.push_back(1);
  return reshape(v, shape);
}
Tensor diagonal_matrix(const Tensor& v) { return mul(as_row(v), identity(v.shape().back(), v.dtype())); }

// 1 / (vⱼ - vᵢ) off the diagonal, 0 on it.
Tensor gaps(const Tensor& v) {
  const Tensor one = identity(v.shape().back(), v.dtype());
  return div(add(neg(one), 1.0), add(sub(as_row(v), as_column(v)), one));
}

Tensor columns(const Tensor& a, std::int64_t begin, std::int64_t end) {
  return slice(a, {.axis = a.rank() - 1, .begin = begin, .end = end});
}

Types infer_qr(const InferCall& call) {
  rules::expect_matrix(call);
  const Shape& a = call.in[0].shape;
  const auto m = a[a.rank() - 2], n = a.back(), k = std::min(m, n);
  return {TensorType{call.in[0].dtype, matrices(batch_of(a), m, k)},
          TensorType{call.in[0].dtype, matrices(batch_of(a), k, n)}};
}

// (dq + q · C) r⁻ᵀ, where C is the lower triangle of r drᵀ - dqᵀ q, mirrored onto the upper one; for m ≥ n.
Tensor grad_tall(const Tensor& q, const Tensor& r, const Tensor& dq, const Tensor& dr) {
  Tensor inner;
  if (dr.defined()) inner = nt(r, dr);
  if (dq.defined()) inner = sum_of(inner, neg(tn(dq, q)));
  const Tensor half = mul(inner, rules::lower_half(r.shape().back(), r.dtype()));
  const Tensor right = sum_of(dq, matmul(q, add(half, matrix_transpose(half))));
  return matrix_transpose(solve(r, matrix_transpose(right)));
}

TensorList grad_qr(const GradCall& c) {
  const Tensor &a = c.in[0], &q = c.out[0], &r = c.out[1], &dq = c.grads[0], &dr = c.grads[1];
  const auto m = a.shape()[a.rank() - 2], n = a.shape().back();
  if (m >= n) return {grad_tall(q, r, dq, dr)};
  // Columns beyond the first m are q · (the rest of r).
  if (!dr.defined()) {
    const Tensor left = grad_tall(q, columns(r, 0, m), dq, Tensor());
    const Tensor parts[] = {left, full(matrices(batch_of(a.shape()), m, n - m), 0.0, a.dtype())};
    return {concat(parts, a.rank() - 1)};
  }
  const Tensor rest = columns(dr, m, n);
  const Tensor through = sum_of(dq, nt(columns(a, m, n), rest));
  const Tensor parts[] = {grad_tall(q, columns(r, 0, m), through, columns(dr, 0, m)), matmul(q, rest)};
  return {concat(parts, a.rank() - 1)};
}

Types infer_svd(const InferCall& call) {
  rules::expect_matrix(call);
  const Shape& a = call.in[0].shape;
  const DType dtype = call.in[0].dtype;
  const auto m = a[a.rank() - 2], n = a.back(), k = std::min(m, n);
  Shape s = batch_of(a);
  s.push_back(k);
  return {TensorType{dtype, matrices(batch_of(a), m, k)}, TensorType{dtype, s},
          TensorType{dtype, matrices(batch_of(a), k, n)}};
}

// F ∘ (xᵀ dx - dxᵀ x), of orthonormal columns.
Tensor turned(const Tensor& x, const Tensor& dx, const Tensor& f) {
  const Tensor inner = tn(x, dx);
  return mul(f, sub(inner, matrix_transpose(inner)));
}

TensorList grad_svd(const GradCall& c) {
  const Tensor &u = c.out[0], &s = c.out[1], &vh = c.out[2];
  const Tensor &du = c.grads[0], &ds = c.grads[1], &dvh = c.grads[2];
  const auto m = u.shape()[u.rank() - 2], n = vh.shape().back(), k = s.shape().back();
  const Tensor f = gaps(mul(s, s)), row = as_row(s), column = as_column(s);
  Tensor core, outer;
  if (ds.defined()) core = diagonal_matrix(ds);
  if (du.defined()) {
    core = sum_of(core, mul(turned(u, du, f), row));
    if (m > k) outer = matmul(div(sub(du, matmul(u, tn(u, du))), row), vh);
  }
  if (dvh.defined()) {
    const Tensor v = matrix_transpose(vh), dv = matrix_transpose(dvh);
    core = sum_of(core, mul(column, turned(v, dv, f)));
    if (n > k) outer = sum_of(outer, matmul(u, div(sub(dvh, matmul(nt(dvh, vh), vh)), column)));
  }
  return {sum_of(matmul(matmul(u, core), vh), outer)};
}

Types infer_eigh(const InferCall& call) {
  rules::expect_square(call);
  Shape values = batch_of(call.in[0].shape);
  values.push_back(call.in[0].shape.back());
  return {TensorType{call.in[0].dtype, values}, call.in[0]};
}

// v (diag(dλ) + F ∘ vᵀ dv) vᵀ, folded onto the lower triangle, the only one that is read.
TensorList grad_eigh(const GradCall& c) {
  const Tensor &values = c.out[0], &v = c.out[1];
  Tensor core;
  if (c.grads[0].defined()) core = diagonal_matrix(c.grads[0]);
  if (c.grads[1].defined()) core = sum_of(core, mul(gaps(values), tn(v, c.grads[1])));
  const Tensor whole = nt(matmul(v, core), v);
  return {mul(add(whole, matrix_transpose(whole)), rules::lower_half(v.shape().back(), v.dtype()))};
}

std::vector<OpCase> factor_cases(std::initializer_list<Shape> shapes, double diagonal) {
  std::vector<OpCase> cases;
  for (const Shape& shape : shapes) cases.push_back(rules::square_case(shape, diagonal));
  return cases;
}

std::vector<OpCase> tall_and_wide() {
  return factor_cases({{3, 3}, {1, 1}, {5, 3}, {3, 5}, {2, 4, 3}, {2, 3, 4}, {0, 3}, {3, 0}, {0, 2, 2}, {7, 6}}, 1.5);
}

}  // namespace

void register_ops_decompose(OpRegistry& ops) {
  ops.add({.name = "qr",
           .doc = "a = q · r with orthonormal columns and an upper triangle whose diagonal is ≥ 0.",
           .inputs = {"a"},
           .outputs = {"q", "r"},
           .infer = infer_qr,
           .gradient = grad_qr,
           .shard = shard_matrices,
           .cases = tall_and_wide,
           .saves = kSavesAll,
           .cost = costs::cubes(4),
           .precision = Width::wide});
  ops.add({.name = "svd",
           .doc = "a = u · diag(s) · vh, s descending; the largest element of each column of u is positive.",
           .inputs = {"a"},
           .outputs = {"u", "s", "vh"},
           .infer = infer_svd,
           .gradient = grad_svd,
           .shard = shard_matrices,
           .cases = tall_and_wide,
           .saves = kSavesOutputs,
           .cost = costs::cubes(14),
           .precision = Width::wide});
  ops.add(
      {.name = "eigh",
       .doc = "Eigenvalues, ascending, and eigenvectors of symmetric matrices, from the lower triangle.",
       .inputs = {"a"},
       .outputs = {"values", "vectors"},
       .infer = infer_eigh,
       .gradient = grad_eigh,
       .shard = shard_matrices,
       .cases =
           [] {
             return factor_cases({{3, 3}, {1, 1}, {2, 2}, {5, 5}, {2, 4, 4}, {0, 0}, {0, 3, 3}, {3, 2, 2}, {6, 6}}, 2);
           },
       .saves = kSavesOutputs,
       .cost = costs::cubes(9),
       .precision = Width::wide});
}

}  // namespace starling
