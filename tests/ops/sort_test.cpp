#include "starling/ops/api/sort.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "ops/op_checks.h"
#include "starling/base/parallel.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/creation.h"

namespace starling::testing {
namespace {

using Values = std::vector<double>;

TEST(Sort, PutsNaNLastAndKeepsTheOrderOfEqualValues) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Values given{nan, 0.0, -0.0, inf, -inf, 0.0, -1};
  for (DType dtype : {DType::f32, DType::f64, DType::f16}) {
    for (const bool reference : {false, true}) {
      std::optional<kernels::ReferenceScope> scope;
      if (reference) scope.emplace();
      const Tensor x = from_doubles(given, {7}, dtype);
      EXPECT_EQ(sort(x).indices.to_vector(), (Values{4, 6, 1, 2, 5, 3, 0}));
      EXPECT_EQ(sort(x, {.descending = true}).indices.to_vector(), (Values{0, 3, 1, 2, 5, 6, 4}));
      EXPECT_TRUE(std::signbit(sort(x).values.to_vector()[3]));
    }
  }
}

// Few different values, and lines on both sides of the threshold for counting sort.
TEST(Sort, OfEveryDtypeIsThatOfTheReference) {
  std::mt19937 random(9);
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (const std::int64_t n : {5, 300, 2000}) {
      Values values(static_cast<std::size_t>(3 * n));
      for (auto& v : values) v = std::floor(std::uniform_real_distribution<double>(-100, 100)(random));
      const Tensor x = cast(from_doubles(values, {3, n}, DType::f64), dtype);
      const auto run = [&] {
        return std::vector<Tensor>{sort(x).values,
                                   argsort(x, {.descending = true}),
                                   argsort(x, {.axis = 0}),
                                   topk(x, {.k = 4}).indices,
                                   topk(x, {.k = 4, .largest = false, .sorted = false}).indices,
                                   topk(x, {.k = n}).values,
                                   unique(x).values,
                                   unique(x).counts};
      };
      const auto got = [&] {
        const ThreadScope threads(3);
        return run();
      }();
      const kernels::ReferenceScope reference;
      const auto want = run();
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(difference(got[i], want[i]), 0) << i << name(dtype) << n;
    }
  }
}

TEST(Topk, RefusesMoreThanThereAre) {
  EXPECT_THROW(topk(zeros({3}), {.k = 4}), Error);
  EXPECT_THROW(topk(zeros({3}), {.k = -1}), Error);
  EXPECT_THROW(sort(zeros({})), Error);
}

TEST(Unique, GivesValuesPlacesAndCounts) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Unique found = unique(from_doubles(Values{3, nan, 1, 3, nan, 2}, {6}));
  EXPECT_EQ(found.inverse.to_vector(), (Values{2, 3, 0, 2, 3, 1}));
  EXPECT_EQ(found.counts.to_vector(), (Values{1, 1, 2, 2}));
  EXPECT_EQ(found.values.shape(), (Shape{4}));
}

TEST(Arange, RefusesWhatHasNoEnd) {
  EXPECT_THROW(arange(0, 5, 0), Error);
  EXPECT_THROW(arange(0, 5, -1), Error);
  EXPECT_THROW(arange(0, 1e300, 1), Error);
  EXPECT_THROW(arange(0.5, 5, 1, DType::i64), Error);
  EXPECT_THROW(linspace(0, 1, -1), Error);
  EXPECT_THROW(eye(std::int64_t{1} << 40, std::int64_t{1} << 40), Error);
  EXPECT_EQ(arange(0, 1, 0.25, DType::f32).to_vector(), (Values{0, 0.25, 0.5, 0.75}));
}

}  // namespace
}  // namespace starling::testing
