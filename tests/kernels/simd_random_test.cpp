#include <gtest/gtest.h>

#include "kernels/simd_testing.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/random/random.h"

namespace starling::kernels {
namespace {

using testing::for_each_target;
using testing::Unaligned;

constexpr PhiloxKey kKey{.seed = 42, .step = 7, .site = 0x123456789abcdefu};

TEST(Random, UniformIsTheScalarDefinitionBitForBit) {
  const PhiloxStream stream(kKey);
  for_each_target([&] {
    for (const int threads : {1, 3}) {
      ThreadScope scope(threads);
      for (const std::int64_t base : {std::int64_t{0}, std::int64_t{1}, std::int64_t{6}, (std::int64_t{1} << 34) - 3}) {
        for (const std::int64_t n : {0, 1, 3, 4, 15, 1021, 1024, 1025, 20000}) {
          Unaligned<float> out(n);
          fill_uniform(out.data(), n, kKey, base);
          EXPECT_TRUE(out.intact());
          for (std::int64_t i = 0; i < n; ++i) {
            ASSERT_EQ(out[i], philox_uniform(stream, static_cast<std::uint64_t>(base + i))) << base << " + " << i;
          }
        }
      }
    }
  });
}

TEST(Random, RangesAreTheSameBitsOnEveryInstructionSet) {
  std::vector<float> first, now(3000);
  for_each_target([&] {
    fill_uniform(now.data(), 3000, kKey, 5, -0.3, 1.7);
    if (first.empty()) first = now;
    EXPECT_EQ(first, now);
  });
}

TEST(Random, NormalFollowsTheScalarDefinition) {
  const PhiloxStream stream(kKey);
  for_each_target([&] {
    const std::int64_t n = 50000;
    std::vector<double> out(n);
    fill_normal(out.data(), n, kKey, 3, 10.0, 2.0);
    for (std::int64_t i = 0; i < n; ++i) {
      const double z = philox_normal(stream, static_cast<std::uint64_t>(3 + i));
      ASSERT_NEAR(out[static_cast<std::size_t>(i)], 10 + 2 * z, 4e-6) << i;
    }
  });
}

TEST(Random, PiecesOfATensorHoldWhatTheWholeWould) {
  const std::int64_t n = 40000;
  std::vector<float> whole(n), pieces(n);
  {
    ThreadScope scope(1);
    fill_normal(whole.data(), n, kKey, 100);
  }
  ThreadScope scope(3);
  std::int64_t at = 0;
  for (const std::int64_t size : {1, 2, 5, 1000, 17, 9999, 28976}) {
    fill_normal(pieces.data() + at, size, kKey, 100 + at);
    at += size;
  }
  ASSERT_EQ(at, n);
  EXPECT_EQ(whole, pieces);
}

template <class T>
void expect_dropout() {
  const PhiloxStream stream(kKey);
  const std::int64_t n = 10001;
  const double keep = 0.7;
  Unaligned<T> x(n), y(n);
  testing::fill_random(x.data(), n, 1, 2);
  dropout(x.data(), y.data(), n, kKey, 9, keep);
  EXPECT_TRUE(y.intact());
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const bool keeps = philox_uniform(stream, static_cast<std::uint64_t>(9 + i)) < static_cast<float>(keep);
    ASSERT_EQ(y[i], keeps ? x[i] * static_cast<T>(1 / keep) : T{0});
    kept += keeps;
  }
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(n), keep, 0.02);
}

TEST(Random, DropoutKeepsByTheUniformNumbers) {
  for_each_target([] {
    expect_dropout<float>();
    expect_dropout<double>();
  });
}

TEST(Random, DropoutAtItsEnds) {
  std::vector<float> x(100, 3.0f), y(100);
  dropout(x.data(), y.data(), 100, kKey, 0, 1.0);
  EXPECT_EQ(x, y);
  dropout(x.data(), y.data(), 100, kKey, 0, 0.0);
  EXPECT_EQ(y, std::vector<float>(100, 0.0f));
  EXPECT_THROW(dropout(x.data(), y.data(), 100, kKey, 0, 1.5), Error);
}

}  // namespace
}  // namespace starling::kernels
