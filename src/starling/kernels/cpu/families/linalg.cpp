#include "starling/ops/api/linalg.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/base/error.h"
#include "starling/kernels/cpu/linalg/lapack.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

// Row-major data is column-major for LAPACK, that is, the transposed matrix: its inverse, determinant and triangles are
// ours, transposed.

template <class T>
void load(const Launch& launch, std::size_t operand, std::int64_t at, double* to, std::int64_t n) {
  const T* from = static_cast<const T*>(launch.in[operand]) + at;
  std::transform(from, from + n, to, [](T v) { return static_cast<double>(v); });
}
template <class T>
void store(const double* from, const Launch& launch, std::int64_t at, std::int64_t n) {
  T* to = static_cast<T*>(launch.out[0]) + at;
  std::transform(from, from + n, to, [](double v) { return static_cast<T>(v); });
}

void refuse_singular(const char* op, int info, std::int64_t index) {
  if (info != 0) fail("[{}] expected invertible matrices, got a singular one at index {}", op, index);
}

// Factorisations say "singular" of matrices with NaN or leave numbers that look right: their inverses are NaN.
bool all_finite(const double* a, std::int64_t n) {
  return std::all_of(a, a + n, [](double v) { return std::isfinite(v); });
}
template <class T>
void store_nan(const Launch& launch, std::int64_t at, std::int64_t n) {
  std::fill_n(static_cast<T*>(launch.out[0]) + at, n, std::numeric_limits<T>::quiet_NaN());
}

template <class T>
std::unique_ptr<Plan> plan_inverse(const PlanRequest& request) {
  MatrixBatch batch(request.in[0].shape, request.threads);
  const int n = static_cast<int>(batch.rows), lwork = 64 * n;
  const auto size = batch.rows * batch.rows;
  batch.doubles = static_cast<std::size_t>(size + lwork);
  batch.ints = static_cast<std::size_t>(n);
  return make_plan(batch.scratch_bytes(), [=](const Launch& launch) {
    if (n == 0) return;
    batch.each(launch.scratch, [&](std::int64_t i, double* a, int* pivots) {
      int info = 0;
      load<T>(launch, 0, i * size, a, size);
      if (!all_finite(a, size)) return store_nan<T>(launch, i * size, size);
      dgetrf_(&n, &n, a, &n, pivots, &info);
      refuse_singular("inverse", info, i);
      dgetri_(&n, a, &n, pivots, a + size, &lwork, &info);
      refuse_singular("inverse", info, i);
      store<T>(a, launch, i * size, size);
    });
  });
}

template <class T>
std::unique_ptr<Plan> plan_solve(const PlanRequest& request) {
  MatrixBatch batch(request.in[0].shape, request.threads);
  const int n = static_cast<int>(batch.rows), k = static_cast<int>(request.in[1].shape.back());
  const auto size = batch.rows * batch.rows, sides = batch.rows * k;
  batch.doubles = static_cast<std::size_t>(size + sides);
  batch.ints = static_cast<std::size_t>(n);
  return make_plan(batch.scratch_bytes(), [=](const Launch& launch) {
    if (n == 0 || k == 0) return;
    batch.each(launch.scratch, [&](std::int64_t i, double* a, int* pivots) {
      int info = 0;
      double* b = a + size;
      load<T>(launch, 0, i * size, a, size);
      if (!all_finite(a, size)) return store_nan<T>(launch, i * sides, sides);
      dgetrf_(&n, &n, a, &n, pivots, &info);
      refuse_singular("solve", info, i);
      const T* from = static_cast<const T*>(launch.in[1]) + i * sides;
      for (std::int64_t r = 0; r < n; ++r) {
        for (std::int64_t c = 0; c < k; ++c) b[c * n + r] = static_cast<double>(from[r * k + c]);
      }
      dgetrs_("T", &n, &k, a, &n, pivots, b, &n, &info, 1);
      T* to = static_cast<T*>(launch.out[0]) + i * sides;
      for (std::int64_t r = 0; r < n; ++r) {
        for (std::int64_t c = 0; c < k; ++c) to[r * k + c] = static_cast<T>(b[c * n + r]);
      }
    });
  });
}

// Determinant from the diagonal of the triangular factor and the number of exchanged rows.
template <class T>
void put_determinant(const Launch& launch, std::int64_t i, const double* a, const int* pivots, int n, bool logs) {
  double product = 1, sign = 1, log = 0;
  for (int d = 0; d < n; ++d) {
    const double value = a[static_cast<std::int64_t>(d) * n + d], turn = pivots[d] == d + 1 ? 1 : -1;
    product *= turn * value;
    sign *= turn * (value < 0 ? -1 : value > 0 ? 1 : value);
    log += std::log(std::abs(value));
  }
  static_cast<T*>(launch.out[0])[i] = static_cast<T>(logs ? sign : product);
  if (logs) static_cast<T*>(launch.out[1])[i] = static_cast<T>(log);
}

template <class T>
std::unique_ptr<Plan> plan_determinant(const PlanRequest& request) {
  MatrixBatch batch(request.in[0].shape, request.threads);
  const int n = static_cast<int>(batch.rows);
  const auto size = batch.rows * batch.rows;
  batch.doubles = static_cast<std::size_t>(size);
  batch.ints = static_cast<std::size_t>(n);
  const bool logs = request.out.size() == 2;
  return make_plan(batch.scratch_bytes(), [=](const Launch& launch) {
    batch.each(launch.scratch, [&](std::int64_t i, double* a, int* pivots) {
      int info = 0;
      load<T>(launch, 0, i * size, a, size);
      if (n > 0) dgetrf_(&n, &n, a, &n, pivots, &info);
      put_determinant<T>(launch, i, a, pivots, n, logs);
    });
  });
}

template <class T>
std::unique_ptr<Plan> plan_cholesky(const PlanRequest& request) {
  MatrixBatch batch(request.in[0].shape, request.threads);
  const int n = static_cast<int>(batch.rows);
  const auto size = batch.rows * batch.rows;
  batch.doubles = static_cast<std::size_t>(size);
  const bool upper = request.attrs.as<op::CholeskyAttrs>().upper;
  return make_plan(batch.scratch_bytes(), [=](const Launch& launch) {
    if (n == 0) return;
    batch.each(launch.scratch, [&](std::int64_t i, double* a, int*) {
      int info = 0;
      load<T>(launch, 0, i * size, a, size);
      dpotrf_(upper ? "L" : "U", &n, a, &n, &info, 1);
      bool finite = true;
      for (std::int64_t d = 0; d < n; ++d) finite = finite && a[d * n + d] > 0;
      if (info != 0 || !finite)
        fail("[cholesky] expected positive definite matrices, got one that is not at index {}", i);
      for (std::int64_t r = 0; r < n; ++r) {
        if (upper) std::fill_n(a + r * n, r, 0.0);
        if (!upper) std::fill_n(a + r * n + r + 1, n - r - 1, 0.0);
      }
      store<T>(a, launch, i * size, size);
    });
  });
}

}  // namespace

void register_cpu_linalg(KernelTable& table) {
  const auto add = [&](const char* op, auto f32, auto f64) {
    table.add(op, DeviceKind::cpu,
              {"lapack", Accepts::contiguous, [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
                 if (request.in[0].dtype == DType::f32) return f32(request);
                 if (request.in[0].dtype == DType::f64) return f64(request);
                 return nullptr;
               }});
  };
  add("inverse", plan_inverse<float>, plan_inverse<double>);
  add("solve", plan_solve<float>, plan_solve<double>);
  add("determinant", plan_determinant<float>, plan_determinant<double>);
  add("slogdet", plan_determinant<float>, plan_determinant<double>);
  add("cholesky", plan_cholesky<float>, plan_cholesky<double>);
}

}  // namespace starling::kernels
