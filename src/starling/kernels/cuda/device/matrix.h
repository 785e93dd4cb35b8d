#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// Linear algebra on batches of small and middle-sized matrices: one block per matrix, computed in f64 in scratch. What
// the CPU refuses (singular, not positive definite, not finite) gives NaN: device code cannot throw.
struct Matrices {
  long long count = 0;
  int rows = 0, columns = 0;
  bool wide = false;  // elements are f64, else f32
};

// Blocks of a launch, which share the scratch: each walks over its part of the matrices.
long long matrix_blocks(const Matrices& m);

// x = a⁻¹ · b, with b the identity if it is null; sign and log, or the determinant where log is null, if they are
// given.
struct MatrixSolve {
  const void *a, *b;
  void *x, *determinant, *log;
  int k;  // columns of b and x
};
unsigned long long solve_scratch(const Matrices& m, int k);
cudaError_t launch_solve(const Matrices& m, const MatrixSolve& solve, void* scratch, cudaStream_t stream);

struct MatrixCholesky {
  const void* a;
  void* l;
  bool upper;
};
unsigned long long cholesky_scratch(const Matrices& m);
cudaError_t launch_cholesky(const Matrices& m, const MatrixCholesky& factor, void* scratch, cudaStream_t stream);

struct MatrixQr {
  const void* a;
  void *q, *r;
};
unsigned long long qr_scratch(const Matrices& m);
cudaError_t launch_qr(const Matrices& m, const MatrixQr& factor, void* scratch, cudaStream_t stream);

struct MatrixSvd {
  const void* a;
  void *u, *s, *vh;
};
unsigned long long svd_scratch(const Matrices& m);
cudaError_t launch_svd(const Matrices& m, const MatrixSvd& svd, void* scratch, cudaStream_t stream);

struct MatrixEigen {
  const void* a;
  void *values, *vectors;
};
unsigned long long eigen_scratch(const Matrices& m);
cudaError_t launch_eigen(const Matrices& m, const MatrixEigen& eigen, void* scratch, cudaStream_t stream);

cudaError_t load_matrix_solve();
cudaError_t load_matrix_jacobi();

}  // namespace starling::device
