#pragma once

#include "starling/ops/def/attrs/linalg.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Linear algebra on matrices in the last two dimensions; leading ones are a batch. f32 and f64, computed in f64. A
// matrix without a solution is an Error that names its place in the batch. Gradients exist wherever the result is
// smooth.

// [.., n, n] → [.., n, n]; refuses singular matrices.
Tensor inverse(const Tensor& a);

// [.., n, n] → [..]. The gradient needs an invertible matrix.
Tensor determinant(const Tensor& a);

// Sign of the determinant and logarithm of its absolute value: 0 and -inf for a singular matrix.
struct SignAndLog {
  Tensor sign, log;
};
SignAndLog slogdet(const Tensor& a);

// Solution x of a · x = b: a [.., n, n], b [.., n, k] or a vector [n]; leading dimensions broadcast. Refuses singular
// matrices.
Tensor solve(const Tensor& a, const Tensor& b);

// L with L · Lᵀ = a, from the lower triangle only (upper: U with Uᵀ · U = a from the upper one). Refuses matrices that
// are not positive definite.
Tensor cholesky(const Tensor& a, const op::CholeskyAttrs& attrs = {});

// a [.., m, n] = q [.., m, k] · r [.., k, n] with k = min(m, n), orthonormal columns of q, r upper triangular with a
// diagonal ≥ 0.
struct Qr {
  Tensor q, r;
};
Qr qr(const Tensor& a);

// a [.., m, n] = u [.., m, k] · diag(s [.., k]) · vh [.., k, n] with k = min(m, n) and s descending. The largest
// element of every column of u is positive. Gradients need distinct s, and s > 0 unless m = n.
struct Svd {
  Tensor u, s, vh;
};
Svd svd(const Tensor& a);

// Eigenvalues [.., n], ascending, and eigenvectors, as columns of [.., n, n], of a symmetric matrix; only its lower
// triangle is read. The largest element of every eigenvector is positive. Gradients need distinct eigenvalues.
struct Eigh {
  Tensor values, vectors;
};
Eigh eigh(const Tensor& a);

// Transpose of the last two dimensions.
Tensor matrix_transpose(const Tensor& a);

}  // namespace starling
