#include "starling/kernels/cpu/pool/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/simd_testing.h"
#include "starling/base/error.h"

namespace starling::kernels {
namespace {

using Floats = std::vector<float>;

struct Sample {
  Shape x;
  op::MaxPoolAttrs attrs;
  bool count_include_pad = true;
};

// Few different values: windows are full of ties.
Floats random_steps(std::int64_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> uniform(-3, 3);
  Floats values(static_cast<std::size_t>(count));
  for (float& v : values) v = static_cast<float>(uniform(engine));
  return values;
}

// Window of one plane: x indices inside the image in order, and the elements that a mean counts.
struct Window {
  std::vector<std::int64_t> inside{};
  std::int64_t counted = 0;
};

std::vector<Window> windows_of_a_plane(const PoolGeometry& g, bool include_pad) {
  const auto& [d, h, w] = g.axes;
  std::vector<Window> all;
  for (std::int64_t window = 0; window < g.out_volume(); ++window) {
    const std::int64_t i = window / (h.out * w.out), j = window / w.out % h.out, k = window % w.out;
    Window made{.counted = d.counted(i, include_pad) * h.counted(j, include_pad) * w.counted(k, include_pad)};
    for (std::int64_t tap = 0; tap < d.kernel * h.kernel * w.kernel; ++tap) {
      const std::int64_t z = d.start(i) + tap / (h.kernel * w.kernel) * d.dilation;
      const std::int64_t y = h.start(j) + tap / w.kernel % h.kernel * h.dilation;
      const std::int64_t x = w.start(k) + tap % w.kernel * w.dilation;
      if (z < 0 || z >= d.in || y < 0 || y >= h.in || x < 0 || x >= w.in) continue;
      made.inside.push_back((z * h.in + y) * w.in + x);
    }
    all.push_back(std::move(made));
  }
  return all;
}

// Calls f(y index, x indices inside the image in order, elements that a mean counts).
template <class F>
void for_windows(const PoolGeometry& g, bool include_pad, const F& f) {
  const std::vector<Window> windows = windows_of_a_plane(g, include_pad);
  std::int64_t at = 0;
  std::vector<std::int64_t> inside;
  for (std::int64_t p = 0; p < g.planes; ++p) {
    for (const Window& window : windows) {
      inside = window.inside;
      for (auto& i : inside) i += p * g.in_volume();
      f(at++, inside, window.counted);
    }
  }
}

std::int64_t first_largest(const Floats& x, const std::vector<std::int64_t>& inside) {
  std::int64_t best = inside.front();
  for (std::int64_t i : inside) {
    if (x[static_cast<std::size_t>(i)] > x[static_cast<std::size_t>(best)]) best = i;
  }
  return best;
}

const std::vector<Sample> kSamples = {{{10, 6, 24, 24}, {}},
                                      {{1, 7, 8, 8}, {}},
                                      {{3, 100, 12, 70}, {}},
                                      {{1, 5, 9, 15}, {}},
                                      {{1, 5, 2, 2}, {}},
                                      {{1, 5, 9, 15}, {{2}, {2}, {0}, {1}, true}},
                                      {{1, 40, 55, 55}, {{3}, {2}}},
                                      {{1, 4, 13, 11}, {{3}, {2}, {1}}},
                                      {{1, 20, 56, 56}, {{3}, {2}, {1}}, false},
                                      {{1, 4, 12, 12}, {{3}, {2}, {1}, {1}, true}},
                                      {{1, 4, 12, 12}, {{3}, {2}, {1}, {1}, true}, false},
                                      {{1, 3, 10, 17}, {{4, 2}, {1, 3}, {2, 0}}},
                                      {{1, 3, 14, 37}, {{5}, {1}, {2}}},
                                      {{1, 3, 14, 60}, {{4, 7}, {2}, {2, 3}}},
                                      {{1, 3, 7, 7}, {{7}, {1}}},
                                      {{2, 300, 9, 15}, {{9, 15}}},
                                      {{1, 2, 40, 50}, {{40, 50}}},
                                      {{2, 3, 5, 9, 40}, {{3}, {2}, {1}}},
                                      {{2, 3, 4, 6, 20}, {{2}, {2}}},
                                      {{2, 3, 90}, {{3}, {2}, {1}}},
                                      {{2, 0, 4, 4}, {}}};

template <class F>
void for_all(const F& f) {
  for (const Sample& s : kSamples) {
    const PoolGeometry g = pool_geometry(s.x, s.attrs, 0, "test");
    const PoolWindows w = regular_windows(g, s.count_include_pad);
    for (int threads : {1, 2, 3}) {
      SCOPED_TRACE(to_string(s.x) + " " + Attrs(s.attrs).print() + " threads " + std::to_string(threads));
      starling::testing::for_each_target([&] { f(s, g, w, threads); });
    }
  }
}

std::size_t y_size(const PoolGeometry& g) { return static_cast<std::size_t>(g.planes * g.out_volume()); }

TEST(MaxPool, TakesTheFirstLargestOfEachWindow) {
  for_all([](const Sample& s, const PoolGeometry& g, const PoolWindows& w, int threads) {
    const Floats x = random_steps(s.x.numel(), 1);
    Floats values(y_size(g));
    std::vector<std::int32_t> places(values.size());
    for_windows(g, true, [&](auto at, const auto& inside, auto) {
      const std::int64_t best = first_largest(x, inside);
      values[static_cast<std::size_t>(at)] = x[static_cast<std::size_t>(best)];
      places[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(best % g.in_volume());
    });
    Floats y(values.size(), NAN);
    std::vector<std::int32_t> index(y.size(), -1);
    max_pool(w, x.data(), y.data(), index.data(), threads);
    EXPECT_EQ(y, values);
    EXPECT_EQ(index, places);
    Floats alone(values.size(), NAN);
    max_pool<float>(w, x.data(), alone.data(), nullptr, threads);
    EXPECT_EQ(alone, values);
  });
}

TEST(MaxPool, GivesTheGradientToTheWinners) {
  for_all([](const Sample& s, const PoolGeometry& g, const PoolWindows& w, int threads) {
    const Floats x = random_steps(s.x.numel(), 1), dy = random_steps(static_cast<std::int64_t>(y_size(g)), 2);
    Floats y(y_size(g)), expected(x.size()), dx(x.size(), NAN), back(y.size(), NAN);
    std::vector<std::int32_t> index(y.size());
    max_pool(w, x.data(), y.data(), index.data(), threads);
    for_windows(g, true, [&](auto at, const auto& inside, auto) {
      expected[static_cast<std::size_t>(first_largest(x, inside))] += dy[static_cast<std::size_t>(at)];
    });
    const bool twice = s.x.rank() == 4 && g.axes[1].in == 2 * g.axes[1].out && g.axes[2].in == 2 * g.axes[2].out;
    const PositionShape shape{g.planes, g.in_volume(), g.out_volume(), twice ? g.axes[2].out : 0};
    max_pool_scatter(shape, dy.data(), index.data(), dx.data(), threads);
    EXPECT_EQ(dx, expected);
    max_pool_gather(shape, x.data(), index.data(), back.data(), threads);
    EXPECT_EQ(back, y);
  });
}

TEST(MaxPool, ScattersPositionsOfOtherWindowsToo) {
  const PositionShape shape{1, 16, 4, 2};
  const Floats dy = {1, 2, 3, 4};
  const std::vector<std::int32_t> index = {15, 0, 15, 3};
  starling::testing::for_each_target([&] {
    Floats dx(16, NAN), expected(16);
    expected[15] = 4, expected[0] = 2, expected[3] = 4;
    max_pool_scatter(shape, dy.data(), index.data(), dx.data(), 1);
    EXPECT_EQ(dx, expected);
  });
}

TEST(MaxPool, RefusesPositionsOutsideTheImage) {
  for (std::int32_t wrong : {-1, 16}) {
    const std::vector<std::int32_t> index = {0, 2, wrong, 10};
    const Floats dy(4), x(16);
    Floats dx(16), y(4);
    EXPECT_THROW(max_pool_scatter({1, 16, 4, 2}, dy.data(), index.data(), dx.data(), 1), Error);
    EXPECT_THROW(max_pool_gather({1, 16, 4, 2}, x.data(), index.data(), y.data(), 1), Error);
  }
}

// In rows long enough for vectors of every target.
TEST(MaxPool, LetsTheFirstNanWin) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t kernel : {2, 3}) {
    const PoolGeometry g = pool_geometry({1, 1, 4, 70}, op::MaxPoolAttrs{{kernel}, {2}}, 2, "test");
    const PoolWindows w = regular_windows(g);
    starling::testing::for_each_target([&] {
      Floats x(280, 5);
      x[1] = nan, x[70 + 1] = nan, x[41] = nan;
      Floats y(y_size(g));
      std::vector<std::int32_t> index(y.size());
      max_pool(w, x.data(), y.data(), index.data(), 1);
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[20]));
      EXPECT_EQ(index[0], 1);
      EXPECT_EQ(index[20], 41);
      EXPECT_EQ(y[5], 5);
      EXPECT_EQ(index[5], 10);
    });
  }
}

TEST(MaxPool, TakesTheFirstOfInfinities) {
  const float low = -std::numeric_limits<float>::infinity();
  const PoolGeometry g = pool_geometry({1, 1, 3, 71}, op::MaxPoolAttrs{{3}, {2}}, 2, "test");
  const PoolWindows w = regular_windows(g);
  starling::testing::for_each_target([&] {
    const Floats x(3 * 71, low);
    Floats y(y_size(g));
    std::vector<std::int32_t> index(y.size(), -1);
    max_pool(w, x.data(), y.data(), index.data(), 1);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(y[i], low);
      EXPECT_EQ(index[i], static_cast<std::int32_t>(2 * i));
    }
  });
}

TEST(AvgPool, AveragesEachWindow) {
  for_all([](const Sample& s, const PoolGeometry& g, const PoolWindows& w, int threads) {
    if (s.attrs.dilation[0] != 1) return;
    const Floats x = random_steps(s.x.numel(), 1);
    Floats y(y_size(g), NAN);
    avg_pool(w, x.data(), y.data(), threads);
    for_windows(g, s.count_include_pad, [&](auto at, const auto& inside, auto count) {
      double sum = 0;
      for (auto i : inside) sum += x[static_cast<std::size_t>(i)];
      ASSERT_NEAR(y[static_cast<std::size_t>(at)], sum / static_cast<double>(count), 1e-6);
    });
  });
}

TEST(AvgPool, SpreadsTheGradientOverTheWindow) {
  for_all([](const Sample& s, const PoolGeometry& g, const PoolWindows& w, int threads) {
    const Floats dy = random_steps(static_cast<std::int64_t>(y_size(g)), 2);
    std::vector<double> expected(static_cast<std::size_t>(s.x.numel()));
    for_windows(g, s.count_include_pad, [&](auto at, const auto& inside, auto count) {
      for (auto i : inside)
        expected[static_cast<std::size_t>(i)] += dy[static_cast<std::size_t>(at)] / static_cast<double>(count);
    });
    Floats dx(expected.size(), NAN), rows(static_cast<std::size_t>(threads * g.axes[2].in));
    avg_pool_backward(w, dy.data(), dx.data(), rows.data(), threads);
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], expected[i], 1e-5) << i;
  });
}

TEST(Pool, RefusesShapesThatDoNotFit) {
  const auto pool = [](Shape x, op::MaxPoolAttrs a) { return pool_geometry(x, a, 2, "test"); };
  EXPECT_THROW(pool({1, 1, 1, 4}, {}), Error);
  EXPECT_THROW(pool({1, 1, 4, 4}, {{2}, {2}, {2}}), Error);
  EXPECT_THROW(pool({1, 1, 4, 4}, {{2}, {2, 0}}), Error);
  EXPECT_THROW(pool({1, 1, 4, 4}, {{2, 2, 2}}), Error);
  EXPECT_THROW(pool({1, 1, 3, 3}, {{2}, {1}, {1}, {4}}), Error);
  EXPECT_THROW(pool({1, 1, 4}, {}), Error);
}

}  // namespace
}  // namespace starling::kernels
