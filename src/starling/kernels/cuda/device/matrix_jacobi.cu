#include "starling/kernels/cuda/device/matrix.cuh"

namespace starling::device {
namespace {

// Rotations from one side (singular values) and from both (eigenvalues) until columns are orthogonal. Columns are
// paired as players of a tournament: in each of its rounds every column occurs once, so that all pairs rotate at once.
constexpr int kMostSweeps = 100;

struct PairOf {
  int p, q;
};
__device__ __forceinline__ PairOf pair_of(int round, int i, int players) {
  const int others = players - 1;
  const int a = i == 0 ? others : (round + i) % others, b = (round + others - i) % others;
  return a < b ? PairOf{a, b} : PairOf{b, a};
}

// Rotation that makes [[pp, pq], [pq, qq]] diagonal.
struct Rotation {
  double c, s;
};
__device__ __forceinline__ Rotation rotation(double pp, double pq, double qq) {
  const double tau = (qq - pp) / (2 * pq), t = (tau < 0 ? -1.0 : 1.0) / (fabs(tau) + sqrt(1 + tau * tau));
  const double c = 1 / sqrt(1 + t * t);
  return {c, t * c};
}

__device__ __forceinline__ void rotate(double* x, double* y, int rows, const Rotation& by) {
  for (int r = threadIdx.x % 32; r < rows; r += 32) {
    const double a = x[r], b = y[r];
    x[r] = by.c * a - by.s * b;
    y[r] = by.s * a + by.c * b;
  }
}

// -1 if a column's largest element (the first of nearly equal ones) is negative, else 1; by a warp.
__device__ double sign_of(const double* column, int rows) {
  double most = 0;
  for (int r = threadIdx.x % 32; r < rows; r += 32) most = DoubleMost{}(most, fabs(column[r]));
  most = warp_reduce(most, DoubleMost{});
  int first = rows;
  for (int r = threadIdx.x % 32; r < rows && first == rows; r += 32) {
    if (!(fabs(column[r]) < most * (1 - 1e-6))) first = r;
  }
  for (int offset = 16; offset > 0; offset /= 2) first = min(first, __shfl_xor_sync(0xffffffffu, first, offset));
  return first < rows && column[first] < 0 ? -1 : 1;
}

// Fills column c with a unit vector orthogonal to the columns before it; by one warp.
__device__ void complete(double* u, int rows, int c) {
  double* column = u + static_cast<long long>(c) * rows;
  for (int e = 0; e < rows; ++e) {
    for (int r = threadIdx.x % 32; r < rows; r += 32) column[r] = r == e ? 1 : 0;
    __syncwarp();
    for (int p = 0; p < 2 * c; ++p) {
      const double* before = u + static_cast<long long>(p % c) * rows;
      const double dot = column_dot(before, column, rows);
      for (int r = threadIdx.x % 32; r < rows; r += 32) column[r] -= dot * before[r];
      __syncwarp();
    }
    const double norm = sqrt(column_dot(column, column, rows));
    if (norm < 0.1 / rows) continue;
    for (int r = threadIdx.x % 32; r < rows; r += 32) column[r] /= norm;
    return;
  }
}

// Place of every column in the order of falling (or rising) keys, ties by number.
__device__ void order_columns(const double* keys, int count, bool falling, int* places) {
  for (int c = threadIdx.x; c < count; c += kMatrixThreads) {
    int place = 0;
    for (int d = 0; d < count; ++d) {
      const bool before = falling ? keys[d] > keys[c] : keys[d] < keys[c];
      place += before || (keys[d] == keys[c] && d < c);
    }
    places[c] = place;
  }
  __syncthreads();
}

// Scratch of one matrix whose longer side is `tall`: work and u [tall, k] and v [k, k] by columns, keys, places.
struct SvdScratch {
  double *work, *v, *u, *lengths;
  int* places;
  __device__ SvdScratch(double* base, long long tall, long long k)
      : work(base),
        v(work + tall * k),
        u(v + k * k),
        lengths(u + tall * k),
        places(reinterpret_cast<int*>(lengths + k)) {}
  __host__ __device__ static long long doubles(long long tall, long long k) { return 2 * tall * k + k * k + 2 * k; }
};

__device__ void orthogonalise(const SvdScratch& s, int tall, int k) {
  const int players = k + k % 2;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool moved = false;
    for (int round = 0; round < players - 1; ++round) {
      for (int i = threadIdx.x / 32; i < players / 2; i += kMatrixWarps) {
        const PairOf at = pair_of(round, i, players);
        if (at.q >= k) continue;
        double *x = s.work + static_cast<long long>(at.p) * tall, *y = s.work + static_cast<long long>(at.q) * tall;
        const double pp = column_dot(x, x, tall), qq = column_dot(y, y, tall), pq = column_dot(x, y, tall);
        if (fabs(pq) <= 1e-15 * sqrt(pp * qq)) continue;
        const Rotation by = rotation(pp, pq, qq);
        rotate(x, y, tall, by);
        rotate(s.v + static_cast<long long>(at.p) * k, s.v + static_cast<long long>(at.q) * k, k, by);
        moved = true;
      }
      __syncthreads();
    }
    if (!__syncthreads_or(moved)) return;
  }
}

// Columns of u in order of their lengths; v stays where it is.
__device__ void normalise(const SvdScratch& s, int tall, int k) {
  for (int c = threadIdx.x / 32; c < k; c += kMatrixWarps) {
    const double* column = s.work + static_cast<long long>(c) * tall;
    const double length = sqrt(column_dot(column, column, tall));
    if (threadIdx.x % 32 == 0) s.lengths[c] = length;
  }
  __syncthreads();
  order_columns(s.lengths, k, true, s.places);
  double longest = 0;
  for (int c = 0; c < k; ++c) longest = DoubleMost{}(longest, s.lengths[c]);
  const double least = longest * 1e-15;
  for (int c = threadIdx.x / 32; c < k; c += kMatrixWarps) {
    if (!(s.lengths[c] > least)) continue;
    double* to = s.u + static_cast<long long>(s.places[c]) * tall;
    for (int r = threadIdx.x % 32; r < tall; r += 32)
      to[r] = s.work[static_cast<long long>(c) * tall + r] / s.lengths[c];
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  for (int place = 0; place < k; ++place) {
    int from = 0;
    while (s.places[from] != place) ++from;
    if (!(s.lengths[from] > least)) complete(s.u, tall, place);
    __syncwarp();
  }
}

template <class T>
__global__ void __launch_bounds__(kMatrixThreads)
    svd_kernel(const __grid_constant__ Matrices m, const __grid_constant__ MatrixSvd p, double* scratch) {
  begin();
  const bool turned = m.rows < m.columns;
  const int tall = turned ? m.columns : m.rows, k = turned ? m.rows : m.columns;
  const long long size = static_cast<long long>(tall) * k;
  const SvdScratch s(scratch + blockIdx.x * SvdScratch::doubles(tall, k), tall, k);
  for (long long i = blockIdx.x; i < m.count; i += gridDim.x) {
    const T* from = static_cast<const T*>(p.a) + i * size;
    T *u = static_cast<T*>(p.u) + i * m.rows * k, *values = static_cast<T*>(p.s) + i * k,
      *vh = static_cast<T*>(p.vh) + i * k * m.columns;
    if (!all_finite(from, size)) {
      fill_nan(u, static_cast<long long>(m.rows) * k);
      fill_nan(values, k);
      fill_nan(vh, static_cast<long long>(k) * m.columns);
      continue;
    }
    for (long long e = threadIdx.x; e < size; e += kMatrixThreads)
      s.work[e] = turned ? from[e] : from[e % tall * k + e / tall];
    for (long long e = threadIdx.x; e < static_cast<long long>(k) * k; e += kMatrixThreads)
      s.v[e] = e / k == e % k ? 1 : 0;
    __syncthreads();
    orthogonalise(s, tall, k);
    normalise(s, tall, k);
    __syncthreads();
    for (int c = threadIdx.x / 32; c < k; c += kMatrixWarps) {
      const int place = s.places[c], lane = threadIdx.x % 32;
      const double *long_side = s.u + static_cast<long long>(place) * tall,
                   *short_side = s.v + static_cast<long long>(c) * k;
      const double *left = turned ? short_side : long_side, *right = turned ? long_side : short_side;
      const double sign = sign_of(left, m.rows);
      if (lane == 0) values[place] = static_cast<T>(s.lengths[c]);
      for (int r = lane; r < m.rows; r += 32) u[static_cast<long long>(r) * k + place] = static_cast<T>(sign * left[r]);
      for (int r = lane; r < m.columns; r += 32)
        vh[static_cast<long long>(place) * m.columns + r] = static_cast<T>(sign * right[r]);
    }
    __syncthreads();
  }
}

// a and v [n, n] by columns, one rotation per pair, values, places.
__host__ __device__ long long eigen_doubles(long long n) { return 2 * n * n + (n + 1) + 2 * n; }

__device__ void diagonalise(double* a, double* v, Rotation* by, int n) {
  const int players = n + n % 2, pairs = players / 2;
  double squares = 0;
  for (int c = 0; c < n; ++c)
    squares += column_dot(a + static_cast<long long>(c) * n, a + static_cast<long long>(c) * n, n);
  const double least = 1e-18 * sqrt(squares);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool moved = false;
    for (int round = 0; round < players - 1; ++round) {
      for (int i = threadIdx.x; i < pairs; i += kMatrixThreads) {
        const PairOf at = pair_of(round, i, players);
        by[i] = {1, 0};
        if (at.q >= n) continue;
        const double pp = a[static_cast<long long>(at.p) * n + at.p], qq = a[static_cast<long long>(at.q) * n + at.q],
                     pq = a[static_cast<long long>(at.q) * n + at.p];
        if (fabs(pq) <= 1e-16 * (fabs(pp) + fabs(qq)) + least) continue;
        by[i] = rotation(pp, pq, qq);
        moved = true;
      }
      __syncthreads();
      for (int i = threadIdx.x / 32; i < pairs; i += kMatrixWarps) {
        const PairOf at = pair_of(round, i, players);
        if (at.q >= n || by[i].s == 0) continue;
        rotate(a + static_cast<long long>(at.p) * n, a + static_cast<long long>(at.q) * n, n, by[i]);
        rotate(v + static_cast<long long>(at.p) * n, v + static_cast<long long>(at.q) * n, n, by[i]);
      }
      __syncthreads();
      for (long long e = threadIdx.x; e < static_cast<long long>(pairs) * n; e += kMatrixThreads) {
        const int i = static_cast<int>(e % pairs);
        const PairOf at = pair_of(round, i, players);
        if (at.q >= n || by[i].s == 0) continue;
        double* column = a + e / pairs * n;
        const double x = column[at.p], y = column[at.q];
        column[at.p] = by[i].c * x - by[i].s * y;
        column[at.q] = by[i].s * x + by[i].c * y;
      }
      __syncthreads();
    }
    if (!__syncthreads_or(moved)) return;
  }
}

template <class T>
__global__ void __launch_bounds__(kMatrixThreads)
    eigen_kernel(const __grid_constant__ Matrices m, const __grid_constant__ MatrixEigen p, double* scratch) {
  begin();
  const int n = m.rows;
  const long long size = static_cast<long long>(n) * n;
  double *a = scratch + blockIdx.x * eigen_doubles(n), *v = a + size, *values = v + size;
  auto* by = reinterpret_cast<Rotation*>(values + n);
  int* places = reinterpret_cast<int*>(values + 2 * n + 1);
  for (long long i = blockIdx.x; i < m.count; i += gridDim.x) {
    const T* from = static_cast<const T*>(p.a) + i * size;
    T *to = static_cast<T*>(p.values) + i * n, *vectors = static_cast<T*>(p.vectors) + i * size;
    if (!all_finite(from, size)) {
      fill_nan(to, n);
      fill_nan(vectors, size);
      continue;
    }
    for (long long e = threadIdx.x; e < size; e += kMatrixThreads) {
      const long long r = e / n, c = e % n;
      a[e] = r >= c ? from[e] : from[c * n + r];
      v[e] = r == c ? 1 : 0;
    }
    __syncthreads();
    diagonalise(a, v, by, n);
    for (int c = threadIdx.x; c < n; c += kMatrixThreads) values[c] = a[static_cast<long long>(c) * n + c];
    __syncthreads();
    order_columns(values, n, false, places);
    for (int c = threadIdx.x / 32; c < n; c += kMatrixWarps) {
      const double* column = v + static_cast<long long>(c) * n;
      const double sign = sign_of(column, n);
      if (threadIdx.x % 32 == 0) to[places[c]] = static_cast<T>(values[c]);
      for (int r = threadIdx.x % 32; r < n; r += 32)
        vectors[static_cast<long long>(r) * n + places[c]] = static_cast<T>(sign * column[r]);
    }
    __syncthreads();
  }
}

}  // namespace

unsigned long long svd_scratch(const Matrices& m) {
  const long long tall = m.rows < m.columns ? m.columns : m.rows, k = m.rows < m.columns ? m.rows : m.columns;
  return static_cast<unsigned long long>(matrix_blocks(m) * SvdScratch::doubles(tall, k)) * sizeof(double);
}
unsigned long long eigen_scratch(const Matrices& m) {
  return static_cast<unsigned long long>(matrix_blocks(m) * eigen_doubles(m.rows)) * sizeof(double);
}

cudaError_t load_matrix_jacobi() {
  for (const cudaError_t status :
       {load(svd_kernel<float>), load(svd_kernel<double>), load(eigen_kernel<float>), load(eigen_kernel<double>)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_svd(const Matrices& m, const MatrixSvd& p, void* scratch, cudaStream_t stream) {
  return launch(m.wide ? svd_kernel<double> : svd_kernel<float>, matrix_shape(m), stream, m, p,
                static_cast<double*>(scratch));
}
cudaError_t launch_eigen(const Matrices& m, const MatrixEigen& p, void* scratch, cudaStream_t stream) {
  return launch(m.wide ? eigen_kernel<double> : eigen_kernel<float>, matrix_shape(m), stream, m, p,
                static_cast<double*>(scratch));
}

}  // namespace starling::device
