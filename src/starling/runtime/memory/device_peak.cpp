#include <chrono>

#include "starling/ops/api/binary.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/def/apply.h"
#include "starling/runtime/memory/peak.h"

namespace starling::runtime {
namespace {

// Seconds of one call of f, issued back to back; `result` is read to wait for them.
template <class F>
double seconds_of(int calls, F&& f) {
  static_cast<void>(to(f(), kCpu));  // plans, measurements, clocks
  const auto start = std::chrono::steady_clock::now();
  for (int i = 1; i < calls; ++i) static_cast<void>(f());
  static_cast<void>(to(view_of(f(), {1}, {1}, 0), kCpu));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

}  // namespace

Peak measure_device_peak(Device device, DType dtype) {
  constexpr std::int64_t kSide = 8192, kCount = std::int64_t{1} << 28;
  constexpr int kCalls = 20;
  const NoGrad no_grad;
  const Tensor a = zeros({kSide, kSide}, dtype, device), x = zeros({kCount}, DType::f32, device);
  Tensor kept;
  const double product = seconds_of(kCalls, [&] { return kept = matmul(a, a); });
  const double sweep = seconds_of(kCalls, [&] { return kept = add(x, x); });
  return {2.0 * kSide * kSide * kSide / product, 2.0 * sizeof(float) * kCount / sweep};
}

}  // namespace starling::runtime
