#include <algorithm>

#include "starling/base/error.h"
#include "starling/kernels/cpu/linalg/lapack.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/signs.h"

namespace starling::kernels {
namespace {

// Row-major data is column-major for LAPACK, so it factors the transposed matrix; its factors, read row-major, are
// ours.

template <class T>
void load(const Launch& launch, std::int64_t i, double* to, std::int64_t n) {
  const T* from = static_cast<const T*>(launch.in[0]) + i * n;
  std::transform(from, from + n, to, [](T v) { return static_cast<double>(v); });
}
template <class T>
void store(const double* from, const Launch& launch, std::size_t output, std::int64_t i, std::int64_t n) {
  T* to = static_cast<T*>(launch.out[output]) + i * n;
  std::transform(from, from + n, to, [](double v) { return static_cast<T>(v); });
}

std::size_t count_of(std::int64_t doubles) { return static_cast<std::size_t>(doubles); }

// QR through LQ of the transpose: aᵀ = l · qᵀ with l lower triangular, so a = q · lᵀ.
template <class T>
std::unique_ptr<Plan> plan_qr(const PlanRequest& request) {
  MatrixBatch batch(request.in[0].shape, request.threads);
  const auto m = batch.rows, n = batch.cols, k = std::min(m, n);
  const int rows = static_cast<int>(n), cols = static_cast<int>(m), rank = static_cast<int>(k), lwork = 64 * rows;
  batch.doubles = count_of(m * n + k + lwork + m * k + k * n);
  return make_plan(batch.scratch_bytes(), [=](const Launch& launch) {
    if (k == 0) return;
    batch.each(launch.scratch, [&](std::int64_t i, double* a, int*) {
      int info = 0;
      double *tau = a + m * n, *work = tau + k, *q = work + lwork, *r = q + m * k;
      load<T>(launch, i, a, m * n);
      dgelqf_(&rows, &cols, a, &rows, tau, work, &lwork, &info);
      for (std::int64_t row = 0; row < k; ++row) {
        std::fill_n(r + row * n, row, 0.0);
        std::copy(a + row * n + row, a + row * n + n, r + row * n + row);
      }
      dorglq_(&rank, &cols, &rank, a, &rows, tau, work, &lwork, &info);
      for (std::int64_t row = 0; row < m; ++row) std::copy_n(a + row * n, k, q + row * k);
      reference::choose_diagonal(q, m, k, r, n);
      store<T>(q, launch, 0, i, m * k);
      store<T>(r, launch, 1, i, k * n);
    });
  });
}

void expect_finite(const char* op, const double* a, std::int64_t n, std::int64_t index) {
  if (!reference::all_finite(a, n)) fail("[{}] expected finite matrices, got another at index {}", op, index);
}
void expect_converged(const char* op, int info, std::int64_t index) {
  if (info != 0) fail("[{}] expected a matrix that converges, got another at index {}", op, index);
}

template <class T>
std::unique_ptr<Plan> plan_svd(const PlanRequest& request) {
  MatrixBatch batch(request.in[0].shape, request.threads);
  const auto m = batch.rows, n = batch.cols, k = std::min(m, n);
  const int rows = static_cast<int>(n), cols = static_cast<int>(m), rank = std::max(1, static_cast<int>(k));
  int lwork = 1;
  if (k > 0) {
    double best = 0, none = 0;
    int info = 0, integer = 0;
    const int ask = -1;
    dgesdd_("S", &rows, &cols, &none, &rows, &none, &none, &rows, &none, &rank, &best, &ask, &integer, &info, 1);
    lwork = static_cast<int>(best) + 1;
  }
  batch.doubles = count_of(m * n + k + m * k + k * n + lwork);
  batch.ints = count_of(8 * k);
  return make_plan(batch.scratch_bytes(), [=](const Launch& launch) {
    if (k == 0) return;
    batch.each(launch.scratch, [&](std::int64_t i, double* a, int* integers) {
      int info = 0;
      double *s = a + m * n, *u = s + k, *vh = u + m * k, *work = vh + k * n;
      load<T>(launch, i, a, m * n);
      expect_finite("svd", a, m * n, i);
      dgesdd_("S", &rows, &cols, a, &rows, s, vh, &rows, u, &rank, work, &lwork, integers, &info, 1);
      expect_converged("svd", info, i);
      reference::choose_signs(u, m, k, vh, n);
      store<T>(u, launch, 0, i, m * k);
      store<T>(s, launch, 1, i, k);
      store<T>(vh, launch, 2, i, k * n);
    });
  });
}

template <class T>
std::unique_ptr<Plan> plan_eigh(const PlanRequest& request) {
  MatrixBatch batch(request.in[0].shape, request.threads);
  const auto n = batch.rows;
  const int size = static_cast<int>(n);
  int lwork = 1, liwork = 1;
  if (n > 0) {
    double best = 0, none = 0;
    int info = 0, best_integers = 0;
    const int ask = -1;
    dsyevd_("V", "U", &size, &none, &size, &none, &best, &ask, &best_integers, &ask, &info, 1, 1);
    lwork = static_cast<int>(best) + 1;
    liwork = best_integers;
  }
  batch.doubles = count_of(n * n + n + n * n + lwork);
  batch.ints = count_of(liwork);
  return make_plan(batch.scratch_bytes(), [=](const Launch& launch) {
    if (n == 0) return;
    batch.each(launch.scratch, [&](std::int64_t i, double* a, int* integers) {
      int info = 0;
      double *values = a + n * n, *vectors = values + n, *work = vectors + n * n;
      load<T>(launch, i, a, n * n);
      expect_finite("eigh", a, n * n, i);
      dsyevd_("V", "U", &size, a, &size, values, work, &lwork, integers, &liwork, &info, 1, 1);
      expect_converged("eigh", info, i);
      for (std::int64_t r = 0; r < n; ++r) {
        for (std::int64_t c = 0; c < n; ++c) vectors[r * n + c] = a[c * n + r];
      }
      reference::choose_signs(vectors, n, n, nullptr, 0);
      store<T>(values, launch, 0, i, n);
      store<T>(vectors, launch, 1, i, n * n);
    });
  });
}

}  // namespace

void register_cpu_decompose(KernelTable& table) {
  const auto add = [&](const char* op, auto f32, auto f64) {
    table.add(op, DeviceKind::cpu,
              {"lapack", Accepts::contiguous, [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
                 if (request.in[0].dtype == DType::f32) return f32(request);
                 if (request.in[0].dtype == DType::f64) return f64(request);
                 return nullptr;
               }});
  };
  add("qr", plan_qr<float>, plan_qr<double>);
  add("svd", plan_svd<float>, plan_svd<double>);
  add("eigh", plan_eigh<float>, plan_eigh<double>);
}

}  // namespace starling::kernels
