#pragma once

#include <bit>
#include <cstdint>

namespace starling {

// Storage types of 16 bits: arithmetic happens in float. Conversions round to nearest even and keep infinities, NaN and
// subnormals.
struct Half {
  std::uint16_t bits = 0;

  static constexpr Half from_float(float value);
  constexpr float to_float() const;
  explicit constexpr operator float() const { return to_float(); }
  friend constexpr bool operator==(Half a, Half b) { return a.to_float() == b.to_float(); }
};

struct BFloat16 {
  std::uint16_t bits = 0;

  static constexpr BFloat16 from_float(float value);
  constexpr float to_float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  explicit constexpr operator float() const { return to_float(); }
  friend constexpr bool operator==(BFloat16 a, BFloat16 b) { return a.to_float() == b.to_float(); }
};

constexpr Half Half::from_float(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000, kOverflow = 0x477ff000 /* 65520 */, kNormal = 0x38800000 /* 2^-14 */;
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t sign = static_cast<std::uint16_t>(all >> 16 & 0x8000);
  std::uint32_t magnitude = all & 0x7fffffff;
  if (magnitude > kInfinity) return {static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff))};
  if (magnitude >= kOverflow) return {static_cast<std::uint16_t>(sign | 0x7c00)};
  if (magnitude < kNormal) {
    // In [0.5, 1) floats are spaced like half's subnormals: adding 0.5 lets the hardware round.
    const float lifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(lifted) - 0x3f000000))};
  }
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return {static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000) >> 13))};
}

constexpr float Half::to_float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

constexpr BFloat16 BFloat16::from_float(float value) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (all + 0x7fff + (all >> 16 & 1)) >> 16;
  const std::uint32_t quiet_nan = all >> 16 | 0x40;
  return {static_cast<std::uint16_t>((all & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded)};
}

}  // namespace starling
