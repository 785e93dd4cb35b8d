#include "starling/ops/api/sparse.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/csr.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/sparse.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 16384;

template <class T>
void add_scaled(T factor, const T* from, T* to, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) to[j] += factor * from[j];
}

// Product by rows: each row of the result belongs to one thread.
template <class T>
void multiply(const CsrPattern& pattern, const Launch& launch, std::int64_t n) {
  const auto *values = static_cast<const T*>(launch.in[2]), *dense = static_cast<const T*>(launch.in[3]);
  const auto *offsets = pattern.offsets(launch), *columns = pattern.columns(launch);
  auto* y = static_cast<T*>(launch.out[0]);
  const std::int64_t work = n * pattern.count / std::max<std::int64_t>(1, pattern.rows) + n;
  parallel_for(pattern.rows, kGrain / std::max<std::int64_t>(1, work), [&](std::int64_t begin, std::int64_t end) {
    std::fill(y + begin * n, y + end * n, T{0});
    for (std::int64_t row = begin; row < end; ++row) {
      for (auto e = offsets[row]; e < offsets[row + 1]; ++e)
        add_scaled(values[e], dense + columns[e] * n, y + row * n, n);
    }
  });
}

// Transposed product: any entry may add to any row of the result, so threads share its columns.
template <class T>
void multiply_transposed(const CsrPattern& pattern, const Launch& launch, std::int64_t n) {
  const auto *values = static_cast<const T*>(launch.in[2]), *dense = static_cast<const T*>(launch.in[3]);
  const auto *offsets = pattern.offsets(launch), *columns = pattern.columns(launch);
  auto* y = static_cast<T*>(launch.out[0]);
  std::fill_n(y, pattern.cols * n, T{0});
  const std::int64_t grain = std::max<std::int64_t>(16, kGrain / std::max<std::int64_t>(1, pattern.count));
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < pattern.rows; ++row) {
      for (auto e = offsets[row]; e < offsets[row + 1]; ++e)
        add_scaled(values[e], dense + row * n + begin, y + columns[e] * n + begin, end - begin);
    }
  });
}

template <class T>
std::unique_ptr<Plan> plan_matmul(const PlanRequest& request) {
  const auto& at = request.attrs.as<op::CsrAttrs>();
  const CsrPattern pattern = csr_pattern("csr_matmul", request, at.trans ? at.columns : request.in[3].shape[0]);
  return make_plan([pattern, trans = at.trans, n = request.out[0].shape[1]](const Launch& launch) {
    pattern.check_values(launch);
    trans ? multiply_transposed<T>(pattern, launch, n) : multiply<T>(pattern, launch, n);
  });
}

template <class T>
double dot(const T* a, const T* b, std::int64_t n) {
  constexpr std::int64_t kSums = 16;
  T sums[kSums] = {};
  std::int64_t j = 0;
  for (; j + kSums <= n; j += kSums) {
    for (std::int64_t k = 0; k < kSums; ++k) sums[k] += a[j + k] * b[j + k];
  }
  double total = 0;
  for (; j < n; ++j) total += static_cast<double>(a[j]) * static_cast<double>(b[j]);
  for (const T sum : sums) total += static_cast<double>(sum);
  return total;
}

template <class T>
std::unique_ptr<Plan> plan_sample(const PlanRequest& request) {
  const CsrPattern pattern = csr_pattern("csr_sample", request, request.in[3].shape[0]);
  return make_plan([pattern, n = request.in[2].shape[1]](const Launch& launch) {
    pattern.check_values(launch);
    std::fill_n(static_cast<T*>(launch.out[0]), pattern.count, T{0});
    const auto *a = static_cast<const T*>(launch.in[2]), *b = static_cast<const T*>(launch.in[3]);
    const auto *offsets = pattern.offsets(launch), *columns = pattern.columns(launch);
    const std::int64_t work = n * pattern.count / std::max<std::int64_t>(1, pattern.rows) + 1;
    parallel_for(pattern.rows, kGrain / work, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (auto e = offsets[row]; e < offsets[row + 1]; ++e)
          static_cast<T*>(launch.out[0])[e] = static_cast<T>(dot(a + row * n, b + columns[e] * n, n));
      }
    });
  });
}

}  // namespace

void register_cpu_sparse(KernelTable& table) {
  const auto add = [&](const char* op, auto f32, auto f64) {
    table.add(op, DeviceKind::cpu,
              {"csr", Accepts::contiguous, [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
                 if (request.in[2].dtype == DType::f32) return f32(request);
                 if (request.in[2].dtype == DType::f64) return f64(request);
                 return nullptr;
               }});
  };
  add("csr_matmul", plan_matmul<float>, plan_matmul<double>);
  add("csr_sample", plan_sample<float>, plan_sample<double>);
}

}  // namespace starling::kernels
