#include <gtest/gtest.h>

#include "kernels/simd_testing.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/reduce/reduce.h"

namespace starling::kernels {
namespace {

using testing::fill_random;
using testing::for_each_target;
using testing::Unaligned;

template <class T>
void expect_reduced(ReduceShape shape, double tolerance) {
  const std::int64_t results = shape.outer * shape.inner;
  Unaligned<T> x(shape.outer * shape.axis * shape.inner), sum(results), max(results);
  fill_random(x.data(), x.size(), -1, 1);
  reduce_sum(x.data(), sum.data(), shape, 0.5);
  reduce_max(x.data(), max.data(), shape);
  EXPECT_TRUE(sum.intact() && max.intact());
  for (std::int64_t o = 0; o < shape.outer; ++o) {
    for (std::int64_t i = 0; i < shape.inner; ++i) {
      double want_sum = 0, want_max = -std::numeric_limits<double>::infinity();
      for (std::int64_t a = 0; a < shape.axis; ++a) {
        const double v = static_cast<double>(x[(o * shape.axis + a) * shape.inner + i]);
        want_sum += v;
        want_max = std::max(want_max, v);
      }
      const std::int64_t at = o * shape.inner + i;
      ASSERT_NEAR(sum[at], 0.5 * want_sum, tolerance) << shape.outer << "," << shape.axis << "," << shape.inner;
      ASSERT_EQ(max[at], static_cast<T>(want_max)) << shape.outer << "," << shape.axis << "," << shape.inner;
    }
  }
}

TEST(Reduce, FoldsTheMiddleAxisOfAnyShape) {
  for_each_target([] {
    for (const int threads : {1, 3}) {
      ThreadScope scope(threads);
      for (const std::int64_t outer : {0, 1, 2, 5}) {
        for (const std::int64_t axis : {0, 1, 3, 17, 300, 5000}) {
          for (const std::int64_t inner : {1, 2, 10, 64, 513}) {
            if (axis * inner > 300000) continue;
            expect_reduced<float>({outer, axis, inner}, 2e-4);
            expect_reduced<double>({outer, axis, inner}, 1e-11);
          }
        }
      }
    }
  });
}

template <class T>
void expect_wide(ReduceShape shape, double tolerance) {
  const std::int64_t results = shape.outer * shape.inner;
  Unaligned<T> x(shape.outer * shape.axis * shape.inner), min(results), prod(results), lse(results), two(results),
      cube(results), one(results), most(results);
  fill_random(x.data(), x.size(), -1.4, 1.4);
  reduce_min(x.data(), min.data(), shape);
  reduce_prod(x.data(), prod.data(), shape);
  reduce_logsumexp(x.data(), lse.data(), shape);
  reduce_norm(x.data(), one.data(), shape, 1);
  reduce_norm(x.data(), two.data(), shape, 2);
  reduce_norm(x.data(), cube.data(), shape, 3);
  reduce_norm(x.data(), most.data(), shape, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(min.intact() && prod.intact() && lse.intact() && one.intact() && two.intact() && cube.intact());
  for (std::int64_t at = 0; at < results; ++at) {
    double least = 9, product = 1, exps = 0, sum = 0, squares = 0, cubes = 0, largest = 0;
    for (std::int64_t a = 0; a < shape.axis; ++a) {
      const double v = static_cast<double>(x[(at / shape.inner * shape.axis + a) * shape.inner + at % shape.inner]);
      least = std::min(least, v);
      product *= v;
      exps += std::exp(v);
      sum += std::abs(v);
      squares += v * v;
      cubes += std::abs(v * v * v);
      largest = std::max(largest, std::abs(v));
    }
    ASSERT_EQ(min[at], static_cast<T>(least));
    ASSERT_NEAR(prod[at], product, tolerance * std::max(1.0, std::abs(product)));
    ASSERT_NEAR(lse[at], std::log(exps), tolerance * 20);
    ASSERT_NEAR(one[at], sum, tolerance * sum);
    ASSERT_NEAR(two[at], std::sqrt(squares), tolerance * sum);
    ASSERT_NEAR(cube[at], std::cbrt(cubes), tolerance * sum);
    ASSERT_EQ(most[at], static_cast<T>(largest));
  }
}

TEST(Reduce, FoldsInDoubleOnEveryTarget) {
  for_each_target([] {
    for (const int threads : {1, 3}) {
      ThreadScope scope(threads);
      for (const std::int64_t axis : {1, 3, 17, 300, 70000}) {
        for (const std::int64_t inner : {1, 2, 33}) {
          if (axis * inner > 100000) continue;
          expect_wide<float>({2, axis, inner}, 1e-6);
          expect_wide<double>({2, axis, inner}, 1e-13);
        }
      }
    }
  });
}

TEST(Reduce, SumsMillionsOfFloatsToTheLastBits) {
  const std::int64_t n = 8'000'000;
  std::vector<float> x(static_cast<std::size_t>(n));
  fill_random(x.data(), n, 0, 1);
  double want = 0;
  for (float v : x) want += static_cast<double>(v);
  float row = 0;
  reduce_sum(x.data(), &row, {1, n, 1});
  EXPECT_NEAR(row / want, 1.0, 2e-7);
  std::vector<float> columns(4);
  reduce_sum(x.data(), columns.data(), {1, n / 4, 4});
  EXPECT_NEAR((static_cast<double>(columns[0]) + columns[1] + columns[2] + columns[3]) / want, 1.0, 2e-7);
}

TEST(Reduce, GivesTheSameBitsOnAnyNumberOfThreads) {
  const std::int64_t n = 1'000'003;
  std::vector<float> x(static_cast<std::size_t>(n));
  fill_random(x.data(), n, -1, 1);
  float one = 0;
  std::vector<float> column_one(7);
  {
    ThreadScope scope(1);
    reduce_sum(x.data(), &one, {1, n, 1});
    reduce_sum(x.data(), column_one.data(), {1, n / 7, 7});
  }
  for (const int threads : {2, 3}) {
    ThreadScope scope(threads);
    float other = 0;
    std::vector<float> column_other(7);
    reduce_sum(x.data(), &other, {1, n, 1});
    reduce_sum(x.data(), column_other.data(), {1, n / 7, 7});
    EXPECT_EQ(one, other);
    EXPECT_EQ(column_one, column_other);
  }
}

TEST(Reduce, MaxIsNanWhereAnElementIsNan) {
  for_each_target([] {
    for (const std::int64_t where : {0, 5, 99, 100000}) {
      std::vector<float> x(200000, 1.0f);
      x[static_cast<std::size_t>(where)] = std::numeric_limits<float>::quiet_NaN();
      float row = 0, columns[2] = {};
      reduce_max(x.data(), &row, {1, 200000, 1});
      reduce_max(x.data(), columns, {1, 100000, 2});
      EXPECT_TRUE(std::isnan(row)) << where;
      EXPECT_TRUE(std::isnan(columns[where % 2])) << where;
      EXPECT_EQ(columns[1 - where % 2], 1.0f) << where;
    }
  });
}

TEST(Reduce, AnEmptyAxisGivesTheIdentity) {
  float sum = 5, max = 5;
  reduce_sum<float>(nullptr, &sum, {1, 0, 1});
  reduce_max<float>(nullptr, &max, {1, 0, 1});
  EXPECT_EQ(sum, 0.0f);
  EXPECT_EQ(max, -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace starling::kernels
