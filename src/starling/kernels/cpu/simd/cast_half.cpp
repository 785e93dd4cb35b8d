#include "starling/kernels/cpu/simd/cast_half.h"

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/simd/cast_half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

void to_half(const float* from, Half* to, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const hn::RebindToUnsigned<decltype(d16)> du;
  for (const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d)); i + lanes <= n; i += lanes) {
    hn::StoreU(hn::BitCast(du, hn::DemoteTo(d16, hn::LoadU(d, from + i))), du, &to[i].bits);
  }
#endif
  for (; i < n; ++i) to[i] = Half::from_float(from[i]);
}

void from_half(const Half* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const hn::RebindToUnsigned<decltype(d16)> du;
  for (const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d)); i + lanes <= n; i += lanes) {
    hn::StoreU(hn::PromoteTo(d, hn::BitCast(d16, hn::LoadU(du, &from[i].bits))), d, to + i);
  }
#endif
  for (; i < n; ++i) to[i] = from[i].to_float();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {
HWY_EXPORT(to_half);
HWY_EXPORT(from_half);
}  // namespace

void cast_half(const float* from, Half* to, std::int64_t n) { HWY_DYNAMIC_DISPATCH(to_half)(from, to, n); }
void cast_half(const Half* from, float* to, std::int64_t n) { HWY_DYNAMIC_DISPATCH(from_half)(from, to, n); }

}  // namespace starling::kernels
#endif
