#include <gtest/gtest.h>

#include "kernels/simd_testing.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/cast.h"

namespace starling::kernels {
namespace {

template <class T>
T make(double x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T::from_float(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

template <class T>
double value(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return static_cast<double>(x.to_float());
  else
    return static_cast<double>(x);
}

// Small integers are exact in every type, so that every pair must agree on them.
template <class From, class To>
void expect_pair() {
  const std::int64_t n = 133;
  auto from = std::make_unique<From[]>(n);
  auto to = std::make_unique<To[]>(n);
  for (std::int64_t i = 0; i < n; ++i) from[static_cast<std::size_t>(i)] = make<From>(static_cast<double>(i % 5));
  cast_array(from.get(), to.get(), n);
  for (std::int64_t i = 0; i < n; ++i) {
    double want = value(from[static_cast<std::size_t>(i)]);
    if constexpr (std::is_same_v<To, bool>) want = want != 0 ? 1 : 0;
    ASSERT_EQ(value(to[static_cast<std::size_t>(i)]), want) << i;
  }
}

template <class From>
void expect_from() {
  expect_pair<From, double>();
  expect_pair<From, float>();
  expect_pair<From, Half>();
  expect_pair<From, BFloat16>();
  expect_pair<From, std::int64_t>();
  expect_pair<From, std::int32_t>();
  expect_pair<From, std::uint8_t>();
  expect_pair<From, bool>();
}

TEST(Cast, EveryPairAgreesOnSmallIntegers) {
  expect_from<double>();
  expect_from<float>();
  expect_from<Half>();
  expect_from<BFloat16>();
  expect_from<std::int64_t>();
  expect_from<std::int32_t>();
  expect_from<std::uint8_t>();
  expect_from<bool>();
}

TEST(Cast, FloatsToIntegersTruncateAndSaturate) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float x[] = {1.9f, -1.9f, 300.0f, -0.5f, inf, -inf, nan, 3e9f, 1e20f, 255.9f};
  std::int32_t i32[10];
  std::int64_t i64[10];
  std::uint8_t u8[10];
  cast_array(x, i32, 10);
  cast_array(x, i64, 10);
  cast_array(x, u8, 10);
  const std::int32_t max32 = std::numeric_limits<std::int32_t>::max(), min32 = std::numeric_limits<std::int32_t>::min();
  const std::int64_t max64 = std::numeric_limits<std::int64_t>::max(), min64 = std::numeric_limits<std::int64_t>::min();
  const std::int32_t want32[] = {1, -1, 300, 0, max32, min32, 0, max32, max32, 255};
  const std::int64_t want64[] = {1, -1, 300, 0, max64, min64, 0, 3000000000, max64, 255};
  const std::uint8_t want8[] = {1, 0, 255, 0, 255, 0, 0, 255, 255, 255};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(i32[i], want32[i]) << x[i];
    EXPECT_EQ(i64[i], want64[i]) << x[i];
    EXPECT_EQ(u8[i], want8[i]) << x[i];
  }
}

TEST(Cast, VectorHalvesAreTheScalarOnes) {
  testing::for_each_target([] {
    for (const int threads : {1, 3}) {
      ThreadScope scope(threads);
      std::vector<Half> all(0x10000), back(0x10000);
      std::vector<float> wide(0x10000);
      for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
      cast_array(all.data(), wide.data(), 0x10000);
      cast_array(wide.data(), back.data(), 0x10000);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const float want = all[i].to_float();
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(back[i].to_float()));
        } else {
          ASSERT_EQ(wide[i], want);
          ASSERT_EQ(back[i].bits, all[i].bits);
        }
      }
    }
  });
}

TEST(Cast, FloatsRoundToHalfAsTheScalarDoes) {
  testing::for_each_target([] {
    const std::int64_t n = 100003;
    std::vector<float> x(n);
    std::vector<Half> y(n);
    std::mt19937 engine(1);
    for (float& v : x) v = std::bit_cast<float>(static_cast<std::uint32_t>(engine() & 0x9fffffffu) + 0x30000000u);
    cast_array(x.data(), y.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) continue;
      ASSERT_EQ(y[i].bits, Half::from_float(x[i]).bits) << x[i];
    }
  });
}

TEST(Cast, DoublesRoundToHalfOnce) {
  // Just above a tie between two halves: float rounds it onto the tie, which would then go down to even.
  const double x[] = {1.0 + 0x1p-11 + 0x1p-40, -(1.0 + 0x1p-11 + 0x1p-40), 1.0 + 0x1p-11};
  Half y[3];
  cast_array(x, y, 3);
  EXPECT_EQ(y[0].to_float(), 1.0f + 0x1p-10f);
  EXPECT_EQ(y[1].to_float(), -(1.0f + 0x1p-10f));
  EXPECT_EQ(y[2].to_float(), 1.0f);
}

}  // namespace
}  // namespace starling::kernels
