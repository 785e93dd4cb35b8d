#include "starling/kernels/cpu/codec/one_bit.h"

#include <algorithm>
#include <cstring>

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/codec/one_bit.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// Means of the values of each sign; 0 for a sign that no value has.
struct Levels {
  float low = 0, high = 0;
};

Levels means(double low, double high, double highs, std::int64_t n) {
  const double lows = static_cast<double>(n) - highs;
  return {lows > 0 ? static_cast<float>(low / lows) : 0.0F, highs > 0 ? static_cast<float>(high / highs) : 0.0F};
}

// Adds the residual in place and takes the means. NaN counts as below 0, so that the line decodes to it.
template <bool kFeedback>
Levels levels(const float* x, float* residual, std::int64_t n) {
  double low = 0, high = 0, highs = 0;
  std::int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0F);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t kBlock = 1 << 16;  // sums of f32 stay short
  while (i + lanes <= n) {
    auto lows = zero, tops = zero, count = zero;
    for (const std::int64_t end = std::min(n, i + kBlock); i + lanes <= end; i += lanes) {
      auto v = hn::LoadU(d, x + i);
      if (kFeedback) {
        v = hn::Add(v, hn::LoadU(d, residual + i));
        hn::StoreU(v, d, residual + i);
      }
      const auto set = hn::Ge(v, zero);
      tops = hn::Add(tops, hn::IfThenElseZero(set, v));
      lows = hn::Add(lows, hn::IfThenZeroElse(set, v));
      count = hn::Add(count, hn::IfThenElseZero(set, one));
    }
    low += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, lows)));
    high += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, tops)));
    highs += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, count)));
  }
#endif
  for (; i < n; ++i) {
    const float v = kFeedback ? x[i] + residual[i] : x[i];
    if (kFeedback) residual[i] = v;
    const bool set = v >= 0;
    (set ? high : low) += static_cast<double>(v);
    highs += set ? 1 : 0;
  }
  return means(low, high, highs, n);
}

template <bool kFeedback>
void encode_line(const float* x, float* residual, std::int64_t n, std::byte* wire) {
  const Levels level = levels<kFeedback>(x, residual, n);
  std::memcpy(wire, &level, sizeof level);
  auto* bits = reinterpret_cast<std::uint8_t*>(wire + sizeof level);
  std::int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const auto zero = hn::Zero(d), low = hn::Set(d, level.low), high = hn::Set(d, level.high);
  for (const auto lanes = static_cast<std::int64_t>(hn::Lanes(d)); i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, kFeedback ? residual + i : x + i);
    const auto set = hn::Ge(v, zero);
    hn::StoreMaskBits(d, set, bits + i / 8);
    if (kFeedback) hn::StoreU(hn::Sub(v, hn::IfThenElse(set, high, low)), d, residual + i);
  }
#endif
  for (; i < n; ++i) {
    const float v = kFeedback ? residual[i] : x[i];
    const bool set = v >= 0;
    if (i % 8 == 0) bits[i / 8] = 0;
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (set ? 1U << (i % 8) : 0U));
    if (kFeedback) residual[i] = v - (set ? level.high : level.low);
  }
}

template <bool kAdd>
void decode_line(const std::byte* wire, float* y, std::int64_t n) {
  Levels level;
  std::memcpy(&level, wire, sizeof level);
  const auto* bits = reinterpret_cast<const std::uint8_t*>(wire + sizeof level);
  std::int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> d;
  const auto low = hn::Set(d, level.low), high = hn::Set(d, level.high);
  constexpr std::int64_t kReadable = 64;  // LoadMaskBits may read eight bytes
  for (const auto lanes = static_cast<std::int64_t>(hn::Lanes(d)); i + kReadable <= n; i += lanes) {
    const auto value = hn::IfThenElse(hn::LoadMaskBits(d, bits + i / 8), high, low);
    hn::StoreU(kAdd ? hn::Add(hn::LoadU(d, y + i), value) : value, d, y + i);
  }
#endif
  for (; i < n; ++i) {
    const float value = ((bits[i / 8] >> (i % 8)) & 1U) != 0 ? level.high : level.low;
    y[i] = (kAdd ? y[i] : 0.0F) + value;
  }
}

void encode(const float* x, float* residual, std::int64_t n, std::byte* wire) {
  if (residual)
    encode_line<true>(x, residual, n, wire);
  else
    encode_line<false>(x, residual, n, wire);
}
void decode(const std::byte* wire, float* y, std::int64_t n) { decode_line<false>(wire, y, n); }
void decode_add(const std::byte* wire, float* y, std::int64_t n) { decode_line<true>(wire, y, n); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {
HWY_EXPORT(encode);
HWY_EXPORT(decode);
HWY_EXPORT(decode_add);
}  // namespace

void encode_one_bit(const float* x, float* residual, std::int64_t n, std::byte* wire) {
  HWY_DYNAMIC_DISPATCH(encode)(x, residual, n, wire);
}
void decode_one_bit(const std::byte* wire, float* y, std::int64_t n) { HWY_DYNAMIC_DISPATCH(decode)(wire, y, n); }
void add_one_bit(const std::byte* wire, float* y, std::int64_t n) { HWY_DYNAMIC_DISPATCH(decode_add)(wire, y, n); }

}  // namespace starling::kernels
#endif
