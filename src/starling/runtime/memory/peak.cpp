#include "starling/runtime/memory/peak.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/def/apply.h"

namespace starling::runtime {
namespace {

using Clock = std::chrono::steady_clock;

template <class F>
double fastest(F&& f, double seconds) {
  double best = std::numeric_limits<double>::infinity();
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto start = Clock::now(); start < end;) {
    f();
    const auto now = Clock::now();
    best = std::min(best, std::chrono::duration<double>(now - start).count());
    start = now;
  }
  return best;
}

double product_speed(DType dtype) {
  constexpr std::int64_t n = 768;
  const NoGrad no_grad;
  const Tensor a = full({n, n}, 0.5, dtype), b = full({n, n}, 0.25, dtype);
  Tensor c = matmul(a, b);  // warm-up of caches and plans
  const double seconds = fastest([&] { c = matmul(a, b); }, 0.25);
  return 2.0 * n * n * n / seconds;
}

// Two streams read and one written, as in elementwise ops.
double sweep_speed() {
  constexpr std::int64_t count = std::int64_t{1} << 24;
  constexpr std::int64_t grain = 1 << 14;
  std::vector<float> x(count), y(count);
  const auto sweep = [&] {
    parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      float* to = y.data();
      const float* from = x.data();
      for (std::int64_t i = begin; i < end; ++i) to[i] += 0.5F * from[i];
    });
  };
  sweep();
  return 3.0 * sizeof(float) * static_cast<double>(count) / fastest(sweep, 0.25);
}

}  // namespace

Peak measure_peak(DType dtype, int threads) {
  check(threads > 0, "[peak] expected at least one thread, got {}", threads);
  const ThreadScope scope(threads);
  return {.flops_per_s = product_speed(dtype), .bytes_per_s = sweep_speed()};
}

}  // namespace starling::runtime
