#include <algorithm>
#include <cmath>

#include "starling/base/parallel.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/margin_attrs.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 8192;

// Σ f(j) with independent partial sums, which the compiler vectorises.
template <class T, class F>
double add_up(std::int64_t n, F&& f) {
  constexpr std::int64_t kSums = 16;
  T sums[kSums] = {};
  std::int64_t j = 0;
  for (; j + kSums <= n; j += kSums) {
    for (std::int64_t k = 0; k < kSums; ++k) sums[k] += f(j + k);
  }
  double total = 0;
  for (; j < n; ++j) total += static_cast<double>(f(j));
  for (const T sum : sums) total += static_cast<double>(sum);
  return total;
}

double above_zero(double x) { return x > 0 || std::isnan(x) ? x : 0; }

template <class T>
std::unique_ptr<Plan> plan_cosine(const PlanRequest& request) {
  const auto n = request.in[0].shape[0], d = request.in[0].shape[1];
  const double margin = request.attrs.as<op::CosineAttrs>().margin;
  return make_plan([=](const Launch& launch) {
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, d));
    parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T *a = static_cast<const T*>(launch.in[0]) + i * d, *b = static_cast<const T*>(launch.in[1]) + i * d;
        const double aa = op::kCosineEps + add_up<T>(d, [&](auto j) { return a[j] * a[j]; });
        const double bb = op::kCosineEps + add_up<T>(d, [&](auto j) { return b[j] * b[j]; });
        const double cosine = add_up<T>(d, [&](auto j) { return a[j] * b[j]; }) / std::sqrt(aa * bb);
        const bool alike = static_cast<const std::int64_t*>(launch.in[2])[i] > 0;
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(alike ? 1 - cosine : above_zero(cosine - margin));
      }
    });
  });
}

template <class T>
std::unique_ptr<Plan> plan_triplet(const PlanRequest& request) {
  const auto n = request.in[0].shape[0], d = request.in[0].shape[1];
  const double margin = request.attrs.as<op::TripletAttrs>().margin;
  const T eps = static_cast<T>(request.attrs.as<op::TripletAttrs>().eps);
  return make_plan([=](const Launch& launch) {
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, d));
    parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* anchor = static_cast<const T*>(launch.in[0]) + i * d;
        const auto distance = [&](std::size_t to) {
          const T* other = static_cast<const T*>(launch.in[to]) + i * d;
          return std::sqrt(add_up<T>(d, [&](auto j) {
            const T x = anchor[j] - other[j] + eps;
            return x * x;
          }));
        };
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(above_zero(distance(1) - distance(2) + margin));
      }
    });
  });
}

}  // namespace

void register_cpu_margin_loss(KernelTable& table) {
  const auto add = [&](const char* op, auto f32, auto f64) {
    table.add(op, DeviceKind::cpu,
              {"rows", Accepts::contiguous, [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
                 if (request.in[0].dtype == DType::f32) return f32(request);
                 if (request.in[0].dtype == DType::f64) return f64(request);
                 return nullptr;
               }});
  };
  add("cosine_embedding_loss", plan_cosine<float>, plan_cosine<double>);
  add("triplet_margin_loss", plan_triplet<float>, plan_triplet<double>);
}

}  // namespace starling::kernels
