#include "starling/kernels/cuda/device/matrix.cuh"

namespace starling::device {
namespace {

// Row of the largest magnitude in column c from row c on, the first of equals; by all threads of the block.
__device__ int pivot_below(const double* a, int n, int c) {
  __shared__ double most[kMatrixWarps];
  __shared__ int where[kMatrixWarps];
  double best = -1;
  int row = c;
  for (int r = c + threadIdx.x; r < n; r += kMatrixThreads) {
    const double value = fabs(a[static_cast<long long>(r) * n + c]);
    if (value > best) best = value, row = r;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const double other = __shfl_xor_sync(0xffffffffu, best, offset);
    const int at = __shfl_xor_sync(0xffffffffu, row, offset);
    if (other > best || (other == best && at < row)) best = other, row = at;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) most[threadIdx.x / 32] = best, where[threadIdx.x / 32] = row;
  __syncthreads();
  best = most[0], row = where[0];
  for (int w = 1; w < kMatrixWarps; ++w) {
    if (most[w] > best || (most[w] == best && where[w] < row)) best = most[w], row = where[w];
  }
  return row;
}

// Gauss-Jordan elimination with row pivots; columns left of the current one are not touched again. Returns false at a
// column without a pivot.
struct Determinant {
  double value = 1, sign = 1, log = 0;
};
__device__ bool eliminate(double* a, double* b, int n, int k, Determinant& d) {
  for (int c = 0; c < n; ++c) {
    const int pivot = pivot_below(a, n, c);
    const double value = a[static_cast<long long>(pivot) * n + c];
    d.value *= pivot == c ? value : -value;
    d.sign *= (pivot == c ? 1 : -1) * (value < 0 ? -1 : value > 0 ? 1 : value);
    d.log += log(fabs(value));
    if (value == 0) return false;
    __syncthreads();
    for (int j = c + threadIdx.x; j < n + k; j += kMatrixThreads) {
      double* column = j < n ? a + j : b + (j - n);
      const long long width = j < n ? n : k;
      const double upper = column[pivot * width];
      if (j > c) {
        if (pivot != c) column[pivot * width] = column[c * width];
        column[c * width] = upper / value;
      } else if (pivot != c) {
        column[pivot * width] = column[c * width];
      }
    }
    __syncthreads();
    const int width = n - c - 1 + k;
    for (long long e = threadIdx.x; e < static_cast<long long>(n) * width; e += kMatrixThreads) {
      const int r = static_cast<int>(e / width), j = c + 1 + static_cast<int>(e % width);
      if (r == c) continue;
      const double factor = a[static_cast<long long>(r) * n + c];
      if (j < n)
        a[static_cast<long long>(r) * n + j] -= factor * a[static_cast<long long>(c) * n + j];
      else
        b[static_cast<long long>(r) * k + j - n] -= factor * b[static_cast<long long>(c) * k + j - n];
    }
    __syncthreads();
  }
  return true;
}

template <class T>
__global__ void __launch_bounds__(kMatrixThreads)
    solve_kernel(const __grid_constant__ Matrices m, const __grid_constant__ MatrixSolve p, double* scratch) {
  begin();
  const int n = m.rows, k = p.k;
  const long long size = static_cast<long long>(n) * n, right = static_cast<long long>(n) * k;
  double *a = scratch + blockIdx.x * (size + right), *b = a + size;
  for (long long i = blockIdx.x; i < m.count; i += gridDim.x) {
    const T* from = static_cast<const T*>(p.a) + i * size;
    const bool good = p.x == nullptr || all_finite(from, size);
    for (long long e = threadIdx.x; e < size; e += kMatrixThreads) a[e] = from[e];
    for (long long e = threadIdx.x; e < right; e += kMatrixThreads)
      b[e] = p.b ? static_cast<double>(static_cast<const T*>(p.b)[i * right + e]) : e / k == e % k ? 1.0 : 0.0;
    __syncthreads();
    Determinant d;
    const bool solved = good && eliminate(a, b, n, k, d);
    if (p.x) {
      T* x = static_cast<T*>(p.x) + i * right;
      if (!solved) fill_nan(x, right);
      for (long long e = threadIdx.x; solved && e < right; e += kMatrixThreads) x[e] = static_cast<T>(b[e]);
    }
    if (p.determinant && threadIdx.x == 0) static_cast<T*>(p.determinant)[i] = static_cast<T>(p.log ? d.sign : d.value);
    if (p.log && threadIdx.x == 0) static_cast<T*>(p.log)[i] = static_cast<T>(d.log);
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kMatrixThreads)
    cholesky_kernel(const __grid_constant__ Matrices m, const __grid_constant__ MatrixCholesky p, double* scratch) {
  begin();
  const int n = m.rows;
  const long long size = static_cast<long long>(n) * n;
  double* l = scratch + blockIdx.x * size;
  for (long long i = blockIdx.x; i < m.count; i += gridDim.x) {
    const T* from = static_cast<const T*>(p.a) + i * size;
    T* to = static_cast<T*>(p.l) + i * size;
    for (long long e = threadIdx.x; e < size; e += kMatrixThreads) l[e] = from[p.upper ? e % n * n + e / n : e];
    __syncthreads();
    bool good = true;
    for (int c = 0; c < n && good; ++c) {
      const double square = l[static_cast<long long>(c) * n + c], pivot = sqrt(square);
      good = square > 0;
      __syncthreads();
      for (int r = c + threadIdx.x; r < n; r += kMatrixThreads) {
        double& at = l[static_cast<long long>(r) * n + c];
        at = r == c ? pivot : at / pivot;
      }
      __syncthreads();
      const int width = n - c - 1;
      for (long long e = threadIdx.x; e < static_cast<long long>(width) * width; e += kMatrixThreads) {
        const int r = c + 1 + static_cast<int>(e / width), j = c + 1 + static_cast<int>(e % width);
        if (j <= r)
          l[static_cast<long long>(r) * n + j] -=
              l[static_cast<long long>(r) * n + c] * l[static_cast<long long>(j) * n + c];
      }
      __syncthreads();
    }
    for (long long e = threadIdx.x; e < size; e += kMatrixThreads) {
      const long long r = e / n, c = e % n;
      const double value = c > r ? 0 : l[e];
      to[p.upper ? c * n + r : e] = static_cast<T>(good ? value : not_a_number());
    }
    __syncthreads();
  }
}

// Columns of x [rows] one after another: reflects each, from row `first` on, by I - 2 v vᵀ / (vᵀ v); a warp per column.
__device__ void reflect(double* x, int rows, int from, int columns, const double* v, int first) {
  const double norm = column_dot(v + first, v + first, rows - first);
  if (norm == 0) return;
  for (int c = from + threadIdx.x / 32; c < columns; c += kMatrixWarps) {
    double* column = x + static_cast<long long>(c) * rows;
    const double by = 2 * column_dot(v + first, column + first, rows - first) / norm;
    for (int r = first + threadIdx.x % 32; r < rows; r += 32) column[r] -= by * v[r];
  }
}

template <class T>
__global__ void __launch_bounds__(kMatrixThreads)
    qr_kernel(const __grid_constant__ Matrices m, const __grid_constant__ MatrixQr p, double* scratch) {
  begin();
  const int rows = m.rows, columns = m.columns, k = rows < columns ? rows : columns;
  const long long size = static_cast<long long>(rows) * columns, thin = static_cast<long long>(rows) * k;
  double *work = scratch + blockIdx.x * (size + 2 * thin), *mirrors = work + size, *q = mirrors + thin;
  for (long long i = blockIdx.x; i < m.count; i += gridDim.x) {
    const T* from = static_cast<const T*>(p.a) + i * size;
    for (long long e = threadIdx.x; e < size; e += kMatrixThreads) work[e] = from[e % rows * columns + e / rows];
    for (long long e = threadIdx.x; e < thin; e += kMatrixThreads) q[e] = e / rows == e % rows ? 1 : 0;
    __syncthreads();
    for (int c = 0; c < k; ++c) {
      const double* column = work + static_cast<long long>(c) * rows;
      double* v = mirrors + static_cast<long long>(c) * rows;
      const double norm = sqrt(column_dot(column + c, column + c, rows - c));
      for (int r = c + threadIdx.x; r < rows; r += kMatrixThreads)
        v[r] = column[r] + (r > c ? 0 : column[c] < 0 ? -norm : norm);
      __syncthreads();
      reflect(work, rows, c, columns, v, c);
      __syncthreads();
    }
    for (int c = k - 1; c >= 0; --c) {
      reflect(q, rows, 0, k, mirrors + static_cast<long long>(c) * rows, c);
      __syncthreads();
    }
    // The diagonal of r becomes ≥ 0; the columns of q follow.
    const auto sign = [&](long long c) { return work[c * rows + c] < 0 ? -1.0 : 1.0; };
    for (long long e = threadIdx.x; e < thin; e += kMatrixThreads)
      static_cast<T*>(p.q)[i * thin + e] = static_cast<T>(sign(e % k) * q[e % k * rows + e / k]);
    for (long long e = threadIdx.x; e < static_cast<long long>(k) * columns; e += kMatrixThreads) {
      const long long r = e / columns, c = e % columns;
      static_cast<T*>(p.r)[i * k * columns + e] = static_cast<T>(c < r ? 0 : sign(r) * work[c * rows + r]);
    }
    __syncthreads();
  }
}

}  // namespace

long long matrix_blocks(const Matrices& m) {
  constexpr long long kMost = 528;
  return m.count < kMost ? m.count : kMost;
}

unsigned long long solve_scratch(const Matrices& m, int k) {
  return static_cast<unsigned long long>(matrix_blocks(m) * m.rows * (m.rows + k)) * sizeof(double);
}
unsigned long long cholesky_scratch(const Matrices& m) { return solve_scratch(m, 0); }
unsigned long long qr_scratch(const Matrices& m) {
  const int k = m.rows < m.columns ? m.rows : m.columns;
  return static_cast<unsigned long long>(matrix_blocks(m) * m.rows * (m.columns + 2 * k)) * sizeof(double);
}

cudaError_t load_matrix_solve() {
  for (const cudaError_t status : {load(solve_kernel<float>), load(solve_kernel<double>), load(cholesky_kernel<float>),
                                   load(cholesky_kernel<double>), load(qr_kernel<float>), load(qr_kernel<double>)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_solve(const Matrices& m, const MatrixSolve& p, void* scratch, cudaStream_t stream) {
  return launch(m.wide ? solve_kernel<double> : solve_kernel<float>, matrix_shape(m), stream, m, p,
                static_cast<double*>(scratch));
}
cudaError_t launch_cholesky(const Matrices& m, const MatrixCholesky& p, void* scratch, cudaStream_t stream) {
  return launch(m.wide ? cholesky_kernel<double> : cholesky_kernel<float>, matrix_shape(m), stream, m, p,
                static_cast<double*>(scratch));
}
cudaError_t launch_qr(const Matrices& m, const MatrixQr& p, void* scratch, cudaStream_t stream) {
  return launch(m.wide ? qr_kernel<double> : qr_kernel<float>, matrix_shape(m), stream, m, p,
                static_cast<double*>(scratch));
}

}  // namespace starling::device
