#include "starling/ops/api/linalg.h"

#include <algorithm>
#include <limits>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/matrix_rules.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor inverse(const Tensor& a) { return apply1(named_op<"inverse">(), {a}); }
Tensor determinant(const Tensor& a) { return apply1(named_op<"determinant">(), {a}); }

SignAndLog slogdet(const Tensor& a) {
  TensorList out = apply(named_op<"slogdet">(), {a});
  return {out[0], out[1]};
}

Tensor solve(const Tensor& a, const Tensor& b) {
  const OpDef& op = named_op<"solve">();
  if (b.rank() == 1) {
    const Tensor x = solve(a, reshape(b, {b.shape()[0], 1}));
    Shape shape = x.shape();
    shape.erase(shape.rank() - 1);
    return reshape(x, shape);
  }
  if (a.rank() < 2 || b.rank() < 2) return apply1(op, {a, b});
  const Shape batch = broadcast_shapes(rules::batch_of(a.shape()), rules::batch_of(b.shape()), "solve");
  const auto stretched = [&](const Tensor& x) {
    const Shape shape = rules::matrices(batch, x.shape()[x.rank() - 2], x.shape().back());
    return x.shape() == shape ? x : broadcast_to(x, shape);
  };
  return apply1(op, {stretched(a), stretched(b)});
}

Tensor cholesky(const Tensor& a, const op::CholeskyAttrs& attrs) { return apply1(named_op<"cholesky">(), {a}, attrs); }

Tensor matrix_transpose(const Tensor& a) {
  Shape order;
  for (int i = 0; i < a.rank(); ++i) order.push_back(i);
  std::swap(order[a.rank() - 1], order[a.rank() - 2]);
  return transpose(a, order);
}

namespace {

using rules::as_matrix;
using rules::batch_of;
using rules::expect_square;
using rules::lower_half;
using rules::shard_matrices;
using rules::square_case;

Types infer_inverse(const InferCall& call) {
  expect_square(call);
  return {call.in[0]};
}

TensorList grad_inverse(const GradCall& c) {
  const Tensor& y = c.out[0];
  return {neg(matmul(matmul(y, c.grads[0], {.trans_a = true}), y, {.trans_b = true}))};
}

Types infer_determinant(const InferCall& call) {
  expect_square(call);
  Types types;
  for (std::size_t i = 0; i < call.op.outputs.size(); ++i)
    types.push_back({call.in[0].dtype, batch_of(call.in[0].shape)});
  return types;
}

// Inverse for a gradient; its errors name the op being differentiated.
Tensor inverse_for(const GradCall& c) {
  try {
    return inverse(c.in[0]);
  } catch (const Error& error) {
    fail("[{}] expected matrices with an inverse: the derivative at a singular one is not supported, got: {}",
         c.op.name, error.what());
  }
}

TensorList grad_determinant(const GradCall& c) {
  return {mul(as_matrix(mul(c.grads[0], c.out[0])), matrix_transpose(inverse_for(c)))};
}

TensorList grad_slogdet(const GradCall& c) {
  if (!c.grads[1].defined()) return {Tensor()};
  return {mul(as_matrix(c.grads[1]), matrix_transpose(inverse_for(c)))};
}

Types infer_solve(const InferCall& call) {
  expect_square(call);
  rules::expect_same_dtype(call);
  const Shape &a = call.in[0].shape, &b = call.in[1].shape;
  check(b.rank() == a.rank() && b[b.rank() - 2] == a.back() && batch_of(a) == batch_of(b),
        "[solve] expected b [.., {}, k] with the leading dimensions of a, got {} and {}", a.back(), to_string(a),
        to_string(b));
  check(b.back() <= std::numeric_limits<int>::max(), "[solve] expected at most 2³¹ right sides, got {}", b.back());
  return {call.in[1]};
}

TensorList grad_solve(const GradCall& c) {
  TensorList out(2);
  const Tensor db = solve(matrix_transpose(c.in[0]), c.grads[0]);
  if (c.needs(0)) out[0] = neg(matmul(db, c.out[0], {.trans_b = true}));
  if (c.needs(1)) out[1] = db;
  return out;
}

// L⁻ᵀ Φ(Lᵀ dL) L⁻¹ with Φ the lower triangle with halved diagonal, folded onto the triangle that is read.
TensorList grad_cholesky(const GradCall& c) {
  const bool upper = c.attrs.as<op::CholeskyAttrs>().upper;
  const Tensor l = upper ? matrix_transpose(c.out[0]) : c.out[0];
  const Tensor g = upper ? matrix_transpose(c.grads[0]) : c.grads[0];
  const Tensor half = lower_half(l.shape().back(), l.dtype());
  const Tensor lt = matrix_transpose(l);
  const Tensor s = solve(lt, matrix_transpose(solve(lt, mul(matmul(l, g, {.trans_a = true}), half))));
  const Tensor folded = mul(add(s, matrix_transpose(s)), half);
  return {upper ? matrix_transpose(folded) : folded};
}

std::vector<OpCase> square_cases() {
  return {square_case({3, 3}),    square_case({1, 1}),    square_case({2, 2}),       square_case({2, 4, 4}),
          square_case({5, 5}),    square_case({0, 0}),    square_case({0, 3, 3}),    square_case({2, 0, 0}),
          square_case({9, 9}, 2), square_case({5, 2, 2}), square_case({2, 1, 3, 3}), square_case({17, 17}, 2)};
}

std::vector<OpCase> determinant_cases() {
  return {square_case({3, 3}, 1),  square_case({1, 1}, 2),      square_case({2, 2}, 2), square_case({2, 4, 4}, 0.5),
          square_case({0, 0}),     square_case({0, 3, 3}),      square_case({2, 0, 0}), square_case({5, 2, 2}, 2),
          square_case({6, 6}, .5), square_case({2, 1, 3, 3}, 1)};
}

std::vector<OpCase> solve_cases() {
  const auto two = [](Shape a, std::int64_t k) {
    OpCase c = square_case(a);
    a[a.rank() - 1] = k;
    c.in.push_back({.shape = a});
    return c;
  };
  return {two({3, 3}, 2), two({1, 1}, 1), two({4, 4}, 1),    two({2, 3, 3}, 4), two({5, 2, 2}, 3),
          two({0, 0}, 2), two({3, 3}, 0), two({0, 2, 2}, 3), two({9, 9}, 20)};
}

std::vector<OpCase> cholesky_cases() {
  std::vector<OpCase> cases;
  for (const bool upper : {false, true}) {
    for (const Shape& shape : {Shape{3, 3}, Shape{1, 1}, Shape{2, 4, 4}, Shape{7, 7}, Shape{0, 0}, Shape{5, 2, 2}})
      cases.push_back(square_case(shape, 5, op::CholeskyAttrs{upper}));
  }
  return cases;
}

void register_determinants(OpRegistry& ops) {
  ops.add({.name = "determinant",
           .doc = "The determinant of square matrices.",
           .inputs = {"a"},
           .infer = infer_determinant,
           .gradient = grad_determinant,
           .shard = shard_matrices,
           .cases = determinant_cases,
           .saves = kSavesAll,
           .cost = costs::cubes(2.0 / 3),
           .precision = Width::wide});
  ops.add({.name = "slogdet",
           .doc = "The sign of the determinant and the logarithm of its size.",
           .inputs = {"a"},
           .outputs = {"sign", "log"},
           .infer = infer_determinant,
           .gradient = grad_slogdet,
           .shard = shard_matrices,
           .cases = square_cases,
           .saves = kSavesInputs,
           .cost = costs::cubes(2.0 / 3),
           .precision = Width::wide});
}

double flops_of_solve(const CostCall& call) {
  return costs::cubes(2.0 / 3).flops(call) + 2 * costs::elements(call.in[1]) * costs::size(call.in[0], -1);
}

}  // namespace

void register_ops_linalg(OpRegistry& ops) {
  ops.add({.name = "inverse",
           .doc = "The inverse of square matrices.",
           .inputs = {"a"},
           .infer = infer_inverse,
           .gradient = grad_inverse,
           .shard = shard_matrices,
           .cases = square_cases,
           .saves = kSavesOutputs,
           .cost = costs::cubes(2),
           .precision = Width::wide});
  ops.add({.name = "solve",
           .doc = "x with a · x = b.",
           .inputs = {"a", "b"},
           .outputs = {"x"},
           .infer = infer_solve,
           .gradient = grad_solve,
           .shard = shard_matrices,
           .cases = solve_cases,
           .saves = kSavesAll,
           .cost = {flops_of_solve},
           .precision = Width::wide});
  ops.add({.name = "cholesky",
           .doc = "The triangular L with L · Lᵀ = a, from one triangle of a.",
           .inputs = {"a"},
           .attrs = &attr_type<op::CholeskyAttrs>(),
           .infer = infer_inverse,
           .gradient = grad_cholesky,
           .shard = shard_matrices,
           .cases = cholesky_cases,
           .saves = kSavesOutputs,
           .cost = costs::cubes(1.0 / 3),
           .precision = Width::wide});
  register_determinants(ops);
}

}  // namespace starling
