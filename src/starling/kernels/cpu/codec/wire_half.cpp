#include "starling/kernels/cpu/codec/wire_half.h"

#include <algorithm>
#include <cmath>

#include "starling/base/half.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/codec/wire_half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

constexpr float kLargestHalf = 65504.0F;

std::uint16_t half_of(float value) {
  if (std::isfinite(value)) value = std::clamp(value, -kLargestHalf, kLargestHalf);
  return Half::from_float(value).bits;
}

#if HWY_TARGET <= HWY_AVX2
using D = hn::ScalableTag<float>;
using D16 = hn::Rebind<std::uint16_t, D>;
using DU = hn::RebindToUnsigned<D>;
constexpr D d;
constexpr D16 d16;
constexpr DU du;
#endif

struct F16 {
  static std::uint16_t narrow(float value) { return half_of(value); }
  static float widen(std::uint16_t bits) { return Half{bits}.to_float(); }
#if HWY_TARGET <= HWY_AVX2
  static auto narrow_all(hn::Vec<D> v) {
    const auto clamped = hn::Min(hn::Max(v, hn::Set(d, -kLargestHalf)), hn::Set(d, kLargestHalf));
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::BitCast(d16, hn::DemoteTo(half, hn::IfThenElse(hn::IsFinite(v), clamped, v)));
  }
  static auto widen_all(hn::Vec<D16> bits) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::BitCast(half, bits));
  }
#endif
};

struct Bf16 {
  static std::uint16_t narrow(float value) { return BFloat16::from_float(value).bits; }
  static float widen(std::uint16_t bits) { return BFloat16{bits}.to_float(); }
#if HWY_TARGET <= HWY_AVX2
  static auto narrow_all(hn::Vec<D> v) {
    const auto bits = hn::BitCast(du, v);
    const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFF)), last);
    const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
    const auto kept = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
    return hn::TruncateTo(d16, hn::ShiftRight<16>(kept));
  }
  static auto widen_all(hn::Vec<D16> bits) { return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits))); }
#endif
};

template <class Format>
void narrow(const float* from, std::uint16_t* to, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  for (const auto lanes = static_cast<std::int64_t>(hn::Lanes(d)); i + lanes <= n; i += lanes)
    hn::StoreU(Format::narrow_all(hn::LoadU(d, from + i)), d16, to + i);
#endif
  for (; i < n; ++i) to[i] = Format::narrow(from[i]);
}

template <class Format, bool kAdd>
void widen(const std::uint16_t* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  for (const auto lanes = static_cast<std::int64_t>(hn::Lanes(d)); i + lanes <= n; i += lanes) {
    const auto wide = Format::widen_all(hn::LoadU(d16, from + i));
    hn::StoreU(kAdd ? hn::Add(hn::LoadU(d, to + i), wide) : wide, d, to + i);
  }
#endif
  for (; i < n; ++i) to[i] = (kAdd ? to[i] : 0.0F) + Format::widen(from[i]);
}

void to_f16(const float* from, std::uint16_t* to, std::int64_t n) { narrow<F16>(from, to, n); }
void to_bf16(const float* from, std::uint16_t* to, std::int64_t n) { narrow<Bf16>(from, to, n); }
void from_f16(const std::uint16_t* from, float* to, std::int64_t n) { widen<F16, false>(from, to, n); }
void from_bf16(const std::uint16_t* from, float* to, std::int64_t n) { widen<Bf16, false>(from, to, n); }
void add_f16(const std::uint16_t* from, float* to, std::int64_t n) { widen<F16, true>(from, to, n); }
void add_bf16(const std::uint16_t* from, float* to, std::int64_t n) { widen<Bf16, true>(from, to, n); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {
HWY_EXPORT(to_f16);
HWY_EXPORT(to_bf16);
HWY_EXPORT(from_f16);
HWY_EXPORT(from_bf16);
HWY_EXPORT(add_f16);
HWY_EXPORT(add_bf16);
}  // namespace

void to_wire_f16(const float* from, std::uint16_t* to, std::int64_t n) { HWY_DYNAMIC_DISPATCH(to_f16)(from, to, n); }
void to_wire_bf16(const float* from, std::uint16_t* to, std::int64_t n) { HWY_DYNAMIC_DISPATCH(to_bf16)(from, to, n); }
void from_wire_f16(const std::uint16_t* from, float* to, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(from_f16)(from, to, n);
}
void from_wire_bf16(const std::uint16_t* from, float* to, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(from_bf16)(from, to, n);
}
void add_wire_f16(const std::uint16_t* from, float* to, std::int64_t n) { HWY_DYNAMIC_DISPATCH(add_f16)(from, to, n); }
void add_wire_bf16(const std::uint16_t* from, float* to, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(add_bf16)(from, to, n);
}

}  // namespace starling::kernels
#endif
