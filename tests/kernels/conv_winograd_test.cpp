#include "starling/kernels/cpu/conv/conv_winograd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/conv_testing.h"
#include "kernels/simd_testing.h"
#include "starling/kernels/cpu/conv/conv_columns.h"
#include "starling/kernels/cpu/conv/conv_plans.h"

namespace starling::kernels {
namespace {

using testing::Doubles;
using testing::doubles;
using testing::Floats;
using testing::random_floats;
using testing::scratch_of;

struct Problem {
  Shape x, w;
  std::int64_t padding;
  ConvGeometry geometry() const {
    return conv_geometry(x, w, op::Conv2dAttrs{{1, 1}, {padding, padding}, {1, 1}, 1, {}}, "test");
  }
  Conv2dShape shape() const { return conv_plans::image_shape(geometry()); }
};

// Allowed error of Winograd tiles as a multiple of that of plain float sums.
double allowance(WinogradScheme scheme) { return scheme == WinogradScheme::k2x3 ? 4 : 12; }

std::vector<WinogradScheme> schemes(const Problem& p) {
  if (p.w[2] == 5) return {WinogradScheme::k2x5};
  return {WinogradScheme::k2x3, WinogradScheme::k4x3};
}

// Even and odd sizes, images narrower and wider than a vector of tiles, channels beside whole vectors, all paddings.
const std::vector<Problem> kProblems = {
    {{2, 32, 14, 14}, {48, 32, 3, 3}, 1}, {{3, 33, 7, 9}, {35, 33, 3, 3}, 1},    {{1, 40, 70, 6}, {32, 40, 3, 3}, 0},
    {{1, 32, 5, 81}, {37, 32, 3, 3}, 2},  {{1, 288, 8, 8}, {256, 288, 3, 3}, 1}, {{2, 512, 8, 8}, {40, 512, 3, 3}, 1},
    {{2, 32, 13, 11}, {48, 32, 5, 5}, 2}, {{1, 33, 9, 70}, {35, 33, 5, 5}, 0},   {{1, 96, 8, 7}, {64, 96, 5, 5}, 4},
};

double error_of(const Floats& got, const Doubles& want) {
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) most = std::max(most, std::abs(static_cast<double>(got[i]) - want[i]));
  return std::isnan(got[0]) ? NAN : most;
}

void expect_near(const Floats& got, const Floats& plain, const Doubles& want, double allowed) {
  EXPECT_LE(error_of(got, want), allowed * error_of(plain, want) + 1e-6);
  EXPECT_LE(error_of(plain, want), 1e-3);
  for (float v : got) ASSERT_FALSE(std::isnan(v));
}

std::size_t count(const Shape& shape) { return static_cast<std::size_t>(shape.numel()); }

template <class F>
void for_all(const F& f) {
  testing::for_each_target([&] {
    for (const auto& problem : kProblems) {
      for (const auto scheme : schemes(problem)) {
        for (int threads : {1, 3}) f(problem, scheme, threads);
      }
    }
  });
}

// The same convolution by columns, in either precision.
template <class T>
std::vector<T> forward(const ConvGeometry& g, const std::vector<T>& x, const std::vector<T>& w,
                       const std::vector<T>& bias) {
  const ColumnConv<T> conv(g, ColumnConv<T>::Pass::forward, 1);
  std::vector<T> y(count(g.y));
  auto memory = scratch_of(conv.scratch_bytes());
  conv.forward(x.data(), w.data(), bias.data(), GemmActivation::kRelu, y.data(), memory.data());
  return y;
}
template <class T>
std::vector<T> backward_data(const ConvGeometry& g, const std::vector<T>& dy, const std::vector<T>& w) {
  const ColumnConv<T> conv(g, ColumnConv<T>::Pass::data, 1);
  std::vector<T> dx(count(g.x));
  auto memory = scratch_of(conv.scratch_bytes());
  conv.backward_data(dy.data(), w.data(), dx.data(), memory.data());
  return dx;
}
template <class T>
std::vector<T> backward_weight(const ConvGeometry& g, const std::vector<T>& x, const std::vector<T>& dy) {
  const ColumnConv<T> conv(g, ColumnConv<T>::Pass::weight, 1);
  std::vector<T> dw(count(g.w));
  auto memory = scratch_of(conv.scratch_bytes());
  conv.backward_weight(x.data(), dy.data(), dw.data(), memory.data());
  return dw;
}

TEST(Winograd, ForwardIsAlmostAsAccurateAsProducts) {
  for_all([](const Problem& p, WinogradScheme scheme, int threads) {
    const ConvGeometry g = p.geometry();
    const Floats x = random_floats(g.x.numel(), 1, 2), w = random_floats(g.w.numel(), 2, 2),
                 b = random_floats(g.w[0], 3, 2);
    Floats got(count(g.y), NAN);
    auto scratch = scratch_of(winograd_forward_scratch(p.shape(), scheme, threads));
    winograd_forward(p.shape(), scheme, x.data(), w.data(), b.data(), true, got.data(), scratch.data(), threads);
    expect_near(got, forward(g, x, w, b), forward(g, doubles(x), doubles(w), doubles(b)), allowance(scheme));
  });
}

TEST(Winograd, BackwardDataIsAlmostAsAccurateAsProducts) {
  for_all([](const Problem& p, WinogradScheme scheme, int threads) {
    const ConvGeometry g = p.geometry();
    const Floats dy = random_floats(g.y.numel(), 1, 2), w = random_floats(g.w.numel(), 2, 2);
    Floats got(count(g.x), NAN);
    auto scratch = scratch_of(winograd_backward_data_scratch(p.shape(), scheme, threads));
    winograd_backward_data(p.shape(), scheme, dy.data(), w.data(), got.data(), scratch.data(), threads);
    expect_near(got, backward_data(g, dy, w), backward_data(g, doubles(dy), doubles(w)), allowance(scheme));
  });
}

TEST(Winograd, BackwardWeightIsAlmostAsAccurateAsProducts) {
  for_all([](const Problem& p, WinogradScheme scheme, int threads) {
    const ConvGeometry g = p.geometry();
    const Floats x = random_floats(g.x.numel(), 1, 2), dy = random_floats(g.y.numel(), 2, 2);
    Floats got(count(g.w), NAN);
    auto scratch = scratch_of(winograd_backward_weight_scratch(p.shape(), scheme, threads));
    winograd_backward_weight(p.shape(), scheme, x.data(), dy.data(), got.data(), scratch.data(), threads);
    expect_near(got, backward_weight(g, x, dy), backward_weight(g, doubles(x), doubles(dy)), allowance(scheme));
  });
}

TEST(Winograd, ANanStaysANanThroughTheRelu) {
  const Problem p{{1, 32, 8, 8}, {32, 32, 3, 3}, 1};
  testing::for_each_target([&] {
    for (const auto scheme : schemes(p)) {
      Floats x = random_floats(p.geometry().x.numel(), 1, 2), w = random_floats(p.geometry().w.numel(), 2, 2);
      x[27] = NAN;
      Floats got(count(p.geometry().y));
      auto scratch = scratch_of(winograd_forward_scratch(p.shape(), scheme, 1));
      winograd_forward(p.shape(), scheme, x.data(), w.data(), nullptr, true, got.data(), scratch.data(), 1);
      EXPECT_TRUE(std::isnan(got[27]));
    }
  });
}

TEST(Winograd, IsMeantForStrideOneWithManyChannels) {
  const auto scheme = [](const Shape& x, const Shape& w, std::int64_t padding) {
    return winograd_scheme(Problem{x, w, padding}.shape(), 2);
  };
  EXPECT_EQ(scheme({16, 64, 56, 56}, {64, 64, 3, 3}, 1), WinogradScheme::k4x3);
  EXPECT_EQ(scheme({64, 96, 27, 27}, {256, 96, 5, 5}, 2), WinogradScheme::k2x5);
  EXPECT_EQ(scheme({64, 64, 6, 6}, {64, 64, 3, 3}, 1), WinogradScheme::k2x3);
  EXPECT_FALSE(scheme({4, 3, 14, 14}, {64, 3, 3, 3}, 1).has_value());
  EXPECT_FALSE(scheme({4, 64, 14, 14}, {64, 64, 7, 7}, 1).has_value());
  EXPECT_FALSE(scheme({64, 64, 3, 3}, {64, 64, 3, 3}, 0).has_value());
}

}  // namespace
}  // namespace starling::kernels
