#include <gtest/gtest.h>

#include "kernels/simd_testing.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/norm/moments.h"
#include "starling/kernels/cpu/norm/normalize.h"

namespace starling::kernels {
namespace {

using testing::fill_random;
using testing::for_each_target;
using testing::Unaligned;

struct Exact {
  double mean = 0, m2 = 0;
};

// Over the middle of [outer, axis, inner] at one result.
template <class T>
Exact exact(const T* x, std::int64_t count, std::int64_t stride) {
  Exact e;
  for (std::int64_t i = 0; i < count; ++i) e.mean += static_cast<double>(x[i * stride]) / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const double apart = static_cast<double>(x[i * stride]) - e.mean;
    e.m2 += apart * apart;
  }
  return e;
}

template <class T>
void expect_moments(std::int64_t outer, std::int64_t axis, std::int64_t inner, double tolerance) {
  Unaligned<T> x(outer * axis * inner);
  fill_random(x.data(), x.size(), 9, 11);
  std::vector<double> mean(static_cast<std::size_t>(outer * inner)), m2(mean.size());
  column_moments(x.data(), outer, axis, inner, mean.data(), m2.data());
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const Exact e = exact(x.data() + o * axis * inner + i, axis, inner);
      const auto at = static_cast<std::size_t>(o * inner + i);
      ASSERT_NEAR(mean[at], e.mean, tolerance) << outer << "," << axis << "," << inner;
      ASSERT_NEAR(m2[at], e.m2, tolerance * (1 + e.m2)) << outer << "," << axis << "," << inner;
    }
  }
  channel_moments(x.data(), 1, outer * inner, axis, mean.data(), m2.data());
  for (std::int64_t c = 0; c < outer * inner; ++c) {
    const Exact e = exact(x.data() + c * axis, axis, 1);
    ASSERT_NEAR(mean[static_cast<std::size_t>(c)], e.mean, tolerance);
    ASSERT_NEAR(m2[static_cast<std::size_t>(c)], e.m2, tolerance * (1 + e.m2));
  }
}

TEST(Moments, AgreeWithDoubleOnAnyShape) {
  for_each_target([] {
    for (const int threads : {1, 3}) {
      ThreadScope scope(threads);
      for (const std::int64_t outer : {1, 3}) {
        for (const std::int64_t axis : {1, 2, 17, 300, 20000}) {
          for (const std::int64_t inner : {1, 5, 70}) {
            if (axis * inner > 100000) continue;
            expect_moments<float>(outer, axis, inner, 1e-5);
            expect_moments<double>(outer, axis, inner, 1e-12);
          }
        }
      }
    }
  });
}

TEST(Moments, OfOneElementAreExact) {
  const float x = 3.25f;
  double mean = 0, m2 = 1;
  channel_moments(&x, 1, 1, 1, &mean, &m2);
  EXPECT_EQ(mean, 3.25);
  EXPECT_EQ(m2, 0);
}

}  // namespace
}  // namespace starling::kernels
