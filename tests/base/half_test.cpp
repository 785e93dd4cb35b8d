#include "starling/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace starling {
namespace {

double exact_half(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryFiniteValueGoesToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half h{static_cast<std::uint16_t>(bits)};
    if ((bits & 0x7c00) == 0x7c00) continue;
    ASSERT_EQ(static_cast<double>(h.to_float()), exact_half(h.bits)) << bits;
    ASSERT_EQ(Half::from_float(h.to_float()).bits, h.bits) << bits;
  }
}

TEST(Half, RoundsBetweenNeighboursToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = exact_half(static_cast<std::uint16_t>(bits)),
                 high = exact_half(static_cast<std::uint16_t>(bits + 1));
    const float middle = static_cast<float>((low + high) / 2);  // exact
    ASSERT_EQ(Half::from_float(middle).bits, bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(Half::from_float(std::nextafter(middle, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(Half::from_float(std::nextafter(middle, 1e9f)).bits, bits + 1) << bits;
  }
}

TEST(Half, KeepsInfinityAndNan) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Half::from_float(inf).to_float(), inf);
  EXPECT_EQ(Half::from_float(-inf).to_float(), -inf);
  EXPECT_TRUE(std::isnan(Half::from_float(std::numeric_limits<float>::quiet_NaN()).to_float()));
  EXPECT_EQ(Half::from_float(65519.0f).to_float(), 65504.0f);
  EXPECT_EQ(Half::from_float(65520.0f).to_float(), inf);
  EXPECT_EQ(Half::from_float(1e30f).to_float(), inf);
  EXPECT_EQ(Half::from_float(-1e-30f).bits, 0x8000);
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsSpecials) {
  EXPECT_EQ(BFloat16::from_float(1.0f).to_float(), 1.0f);
  EXPECT_EQ(BFloat16::from_float(1.0f + 0x1p-8f).to_float(), 1.0f);                // a tie, down to even
  EXPECT_EQ(BFloat16::from_float(1.0f + 3 * 0x1p-8f).to_float(), 1.0f + 0x1p-6f);  // a tie, up to even
  EXPECT_EQ(BFloat16::from_float(1.0f + 0x1.8p-8f).to_float(), 1.0f + 0x1p-7f);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(BFloat16::from_float(-inf).to_float(), -inf);
  EXPECT_EQ(BFloat16::from_float(std::numeric_limits<float>::max()).to_float(), inf);
  EXPECT_TRUE(std::isnan(BFloat16::from_float(std::numeric_limits<float>::quiet_NaN()).to_float()));
  EXPECT_TRUE(std::isnan(BFloat16::from_float(std::bit_cast<float>(0x7f800001u)).to_float()));
}

}  // namespace
}  // namespace starling
