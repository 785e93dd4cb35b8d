#include "bandwidth/triad.h"

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bandwidth/triad.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace triad_impl {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// n is a multiple of every vector's lanes.
template <bool kStream>
void run_as(float* a, const float* b, const float* c, float s, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, s);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto sum = hn::MulAdd(factor, hn::Load(d, c + i), hn::Load(d, b + i));
    if constexpr (kStream) {
      hn::Stream(sum, d, a + i);
    } else {
      hn::Store(sum, d, a + i);
    }
  }
  if constexpr (kStream) hwy::FlushStream();
}

void run(float* a, const float* b, const float* c, float s, std::int64_t n, bool stream) {
  stream ? run_as<true>(a, b, c, s, n) : run_as<false>(a, b, c, s, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace triad_impl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace triad_impl {
HWY_EXPORT(run);

void dispatched(float* a, const float* b, const float* c, float s, std::int64_t n, bool stream) {
  HWY_DYNAMIC_DISPATCH(run)(a, b, c, s, n, stream);
}
}  // namespace triad_impl

void triad(float* a, const float* b, const float* c, float s, std::int64_t n, bool stream) {
  constexpr std::int64_t kUnit = 16;
  starling::parallel_for(n / kUnit, 1024, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * kUnit;
    triad_impl::dispatched(a + at, b + at, c + at, s, (end - begin) * kUnit, stream);
  });
}
#endif
