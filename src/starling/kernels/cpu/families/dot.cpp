#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

// Least elements per thread.
constexpr std::int64_t kGrain = 16384;
// Pieces of a long row, whose sums are added in order: the result does not depend on the threads.
constexpr std::int64_t kPiece = 8192;

// Dot product with independent partial sums, which the compiler vectorises.
template <class T>
double dot_piece(const T* a, const T* b, std::int64_t n) {
  constexpr std::int64_t kSums = 32;
  T sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (std::int64_t j = 0; j < kSums; ++j) sums[j] += a[i + j] * b[i + j];
  }
  double total = 0;
  for (; i < n; ++i) total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  for (const T sum : sums) total += static_cast<double>(sum);
  return total;
}

template <class T>
std::unique_ptr<Plan> plan_dot(std::int64_t rows, std::int64_t n) {
  const std::int64_t pieces = std::max<std::int64_t>(1, (n + kPiece - 1) / kPiece);
  const auto scratch = static_cast<std::size_t>(rows * pieces) * sizeof(double);
  return make_plan(scratch, [=](const Launch& launch) {
    const auto *a = static_cast<const T*>(launch.in[0]), *b = static_cast<const T*>(launch.in[1]);
    auto* sums = static_cast<double*>(launch.scratch);
    const std::int64_t grain = kGrain / std::max<std::int64_t>(1, std::min(n, kPiece));
    parallel_for(rows * pieces, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int64_t from = p % pieces * kPiece, at = p / pieces * n + from;
        sums[p] = dot_piece(a + at, b + at, std::min(kPiece, n - from));
      }
    });
    for (std::int64_t r = 0; r < rows; ++r) {
      double total = 0;
      for (std::int64_t p = 0; p < pieces; ++p) total += sums[r * pieces + p];
      static_cast<T*>(launch.out[0])[r] = static_cast<T>(total);
    }
  });
}

template <class T>
std::unique_ptr<Plan> plan_outer(std::int64_t m, std::int64_t n) {
  return make_plan([=](const Launch& launch) {
    const auto *a = static_cast<const T*>(launch.in[0]), *b = static_cast<const T*>(launch.in[1]);
    auto* c = static_cast<T*>(launch.out[0]);
    parallel_for(m, kGrain / std::max<std::int64_t>(1, n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T factor = a[i];
        T* row = c + i * n;
        for (std::int64_t j = 0; j < n; ++j) row[j] = factor * b[j];
      }
    });
  });
}

}  // namespace

void register_cpu_dot(KernelTable& table) {
  table.add("dot", DeviceKind::cpu,
            {"dot", Accepts::contiguous, [](const PlanRequest& request) -> std::unique_ptr<Plan> {
               const auto rows = request.out[0].shape.numel(), n = request.in[0].shape.back();
               if (request.in[0].dtype == DType::f32) return plan_dot<float>(rows, n);
               if (request.in[0].dtype == DType::f64) return plan_dot<double>(rows, n);
               return nullptr;
             }});
  table.add("outer", DeviceKind::cpu,
            {"outer", Accepts::contiguous, [](const PlanRequest& request) -> std::unique_ptr<Plan> {
               const auto m = request.in[0].shape[0], n = request.in[1].shape[0];
               if (request.in[0].dtype == DType::f32) return plan_outer<float>(m, n);
               if (request.in[0].dtype == DType::f64) return plan_outer<double>(m, n);
               return nullptr;
             }});
}

}  // namespace starling::kernels
