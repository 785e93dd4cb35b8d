#include "starling/kernels/cpu/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/simd_testing.h"
#include "starling/base/error.h"

namespace starling {
namespace {

using Floats = std::vector<float>;

// Few different values: windows are full of ties.
Floats random_steps(std::int64_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> uniform(-3, 3);
  Floats values(static_cast<std::size_t>(count));
  for (float& v : values) v = static_cast<float>(uniform(engine));
  return values;
}

std::int64_t x_size(const Pool2dShape& s) { return s.planes * s.in_h * s.in_w; }
std::int64_t y_size(const Pool2dShape& s) { return s.planes * s.out_h() * s.out_w(); }

// Calls f(y index, x indices inside the image in order, padded size of the window).
template <class F>
void for_windows(const Pool2dShape& s, const F& f) {
  for (std::int64_t p = 0; p < s.planes; ++p) {
    for (std::int64_t oh = 0; oh < s.out_h(); ++oh) {
      for (std::int64_t ow = 0; ow < s.out_w(); ++ow) {
        std::vector<std::int64_t> inside;
        int padded = 0;
        for (std::int64_t kh = 0; kh < s.kernel_h; ++kh) {
          for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
            const std::int64_t h = oh * s.stride_h - s.pad_h + kh;
            const std::int64_t w = ow * s.stride_w - s.pad_w + kw;
            if (h < s.in_h + s.pad_h && w < s.in_w + s.pad_w) ++padded;
            if (h >= 0 && h < s.in_h && w >= 0 && w < s.in_w) inside.push_back((p * s.in_h + h) * s.in_w + w);
          }
        }
        f((p * s.out_h() + oh) * s.out_w() + ow, inside, padded);
      }
    }
  }
}

std::int64_t first_largest(const Floats& x, const std::vector<std::int64_t>& inside) {
  std::int64_t best = inside.front();
  for (std::int64_t i : inside) {
    if (x[i] > x[best]) best = i;
  }
  return best;
}

std::string name_of(const Pool2dShape& s, int threads) {
  return fmt::format("{}x{}x{} kernel {}x{} stride {}x{} pad {}x{} ceil {} threads {}", s.planes, s.in_h, s.in_w,
                     s.kernel_h, s.kernel_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.ceil_mode, threads);
}

const std::vector<Pool2dShape> kShapes = {
    {.planes = 60, .in_h = 24, .in_w = 24},
    {.planes = 7, .in_h = 8, .in_w = 8},
    {.planes = 300, .in_h = 12, .in_w = 70},
    {.planes = 5, .in_h = 9, .in_w = 15},
    {.planes = 5, .in_h = 2, .in_w = 2},
    {.planes = 5, .in_h = 9, .in_w = 15, .ceil_mode = true},
    {.planes = 5, .in_h = 9, .in_w = 15, .count_include_pad = false},
    {.planes = 4, .in_h = 13, .in_w = 11, .kernel_h = 3, .kernel_w = 3},
    {.planes = 4, .in_h = 13, .in_w = 11, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1},
    {.planes = 4, .in_h = 12, .in_w = 12, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .ceil_mode = true},
    {.planes = 4,
     .in_h = 12,
     .in_w = 12,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .ceil_mode = true,
     .count_include_pad = false},
    {.planes = 3, .in_h = 10, .in_w = 17, .kernel_h = 4, .kernel_w = 2, .stride_h = 1, .stride_w = 3, .pad_h = 2},
    {.planes = 3, .in_h = 7, .in_w = 7, .kernel_h = 7, .kernel_w = 7, .stride_h = 1, .stride_w = 1},
    {.planes = 0, .in_h = 4, .in_w = 4}};

template <class F>
void for_all_shapes(const F& f) {
  for (const Pool2dShape& s : kShapes) {
    for (int threads : {1, 2, 3}) {
      SCOPED_TRACE(name_of(s, threads));
      starling::testing::for_each_target([&] { f(s, threads); });
    }
  }
}

TEST(MaxPool, TakesTheLargestOfEachWindow) {
  for_all_shapes([](const Pool2dShape& s, int threads) {
    const Floats x = random_steps(x_size(s), 1);
    Floats expected(static_cast<std::size_t>(y_size(s)));
    for_windows(s, [&](auto y, const auto& inside, int) { expected[y] = x[first_largest(x, inside)]; });
    Floats y(expected.size(), NAN);
    max_pool2d_forward(s, x.data(), y.data(), threads);
    EXPECT_EQ(y, expected);
  });
}

TEST(MaxPool, GivesTheGradientToTheFirstLargest) {
  for_all_shapes([](const Pool2dShape& s, int threads) {
    const Floats x = random_steps(x_size(s), 1);
    const Floats dy = random_steps(y_size(s), 2);
    Floats expected(x.size());
    for_windows(s, [&](auto y, const auto& inside, int) { expected[first_largest(x, inside)] += dy[y]; });
    Floats dx(x.size(), NAN);
    max_pool2d_backward(s, x.data(), dy.data(), dx.data(), threads);
    EXPECT_EQ(dx, expected);
  });
}

TEST(MaxPool, LetsNanWin) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t size : {2, 3}) {  // the vector path and the general one
    const Pool2dShape s{.planes = 1, .in_h = size, .in_w = size, .kernel_h = size, .kernel_w = size};
    for (std::int64_t at = 0; at < size * size; ++at) {
      Floats x(static_cast<std::size_t>(size * size), 5);
      x[at] = nan;
      Floats y(1);
      max_pool2d_forward(s, x.data(), y.data(), 1);
      EXPECT_TRUE(std::isnan(y[0])) << at;
      const Floats dy = {3};
      Floats dx(x.size());
      max_pool2d_backward(s, x.data(), dy.data(), dx.data(), 1);
      for (std::int64_t i = 0; i < size * size; ++i) EXPECT_EQ(dx[i], i == at ? 3 : 0);
    }
  }
}

TEST(MaxPool, TakesWindowsOfMinusInfinity) {
  const float low = -std::numeric_limits<float>::infinity();
  for (std::int64_t size : {2, 3}) {
    const Pool2dShape s{.planes = 1, .in_h = size, .in_w = size, .kernel_h = size, .kernel_w = size};
    const Floats x(static_cast<std::size_t>(size * size), low);
    Floats y(1);
    max_pool2d_forward(s, x.data(), y.data(), 1);
    EXPECT_EQ(y[0], low);
    const Floats dy = {3};
    Floats dx(x.size());
    max_pool2d_backward(s, x.data(), dy.data(), dx.data(), 1);
    EXPECT_EQ(dx[0], 3);
  }
}

TEST(AvgPool, AveragesEachWindow) {
  for_all_shapes([](const Pool2dShape& s, int threads) {
    const Floats x = random_steps(x_size(s), 1);
    Floats y(static_cast<std::size_t>(y_size(s)), NAN);
    avg_pool2d_forward(s, x.data(), y.data(), threads);
    for_windows(s, [&](auto at, const auto& inside, int padded) {
      double sum = 0;
      for (auto i : inside) sum += x[i];
      const double divisor = s.count_include_pad ? padded : static_cast<double>(inside.size());
      ASSERT_NEAR(y[at], sum / divisor, 1e-6);
    });
  });
}

TEST(AvgPool, SpreadsTheGradientOverTheWindow) {
  for_all_shapes([](const Pool2dShape& s, int threads) {
    const Floats dy = random_steps(y_size(s), 2);
    std::vector<double> expected(static_cast<std::size_t>(x_size(s)));
    for_windows(s, [&](auto at, const auto& inside, int padded) {
      const double divisor = s.count_include_pad ? padded : static_cast<double>(inside.size());
      for (auto i : inside) expected[i] += dy[at] / divisor;
    });
    Floats dx(expected.size(), NAN);
    avg_pool2d_backward(s, dy.data(), dx.data(), threads);
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], expected[i], 1e-5) << i;
  });
}

TEST(Pool, RefusesShapesThatDoNotFit) {
  float x = 0;
  EXPECT_THROW(max_pool2d_forward({.planes = 1, .in_h = 1, .in_w = 4}, &x, &x, 1), Error);
  EXPECT_THROW(max_pool2d_forward({.planes = 1, .in_h = 4, .in_w = 4, .pad_h = 2}, &x, &x, 1), Error);
  EXPECT_THROW(avg_pool2d_forward({.planes = 1, .in_h = 4, .in_w = 4, .stride_w = 0}, &x, &x, 1), Error);
}

}  // namespace
}  // namespace starling
