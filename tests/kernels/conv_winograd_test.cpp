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

// Holds Winograd tiles of all problems, schemes and instruction sets against sums in floats, made once an instruction
// set, and in doubles, made once. `operands`: two arrays of a geometry; `sums`: the convolution of them by columns, in
// either precision.
template <class Operands, class Sums, class Tiles>
void expect_near_sums(const Operands& operands, const Sums& sums, const Tiles& tiles) {
  for (const auto& problem : kProblems) {
    const ConvGeometry g = problem.geometry();
    const auto [a, b] = operands(g);
    const Doubles exact = sums(g, doubles(a), doubles(b));
    testing::for_each_target([&, &a = a, &b = b] {
      const Floats plain = sums(g, a, b);
      for (const auto scheme : schemes(problem)) {
        for (int threads : {1, 3}) {
          Floats got(plain.size(), NAN);
          tiles(problem.shape(), scheme, a, b, got, threads);
          expect_near(got, plain, exact, allowance(scheme));
        }
      }
    });
  }
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

std::pair<Floats, Floats> two_floats(const Shape& a, const Shape& b) {
  return {random_floats(a.numel(), 1, 2), random_floats(b.numel(), 2, 2)};
}

TEST(Winograd, ForwardIsAlmostAsAccurateAsProducts) {
  expect_near_sums(
      [](const ConvGeometry& g) { return two_floats(g.x, g.w); },
      []<class T>(const ConvGeometry& g, const std::vector<T>& x, const std::vector<T>& w) {
        const Floats bias = random_floats(g.w[0], 3, 2);
        return forward(g, x, w, std::vector<T>(bias.begin(), bias.end()));
      },
      [](const Conv2dShape& shape, WinogradScheme scheme, const Floats& x, const Floats& w, Floats& y, int threads) {
        const Floats bias = random_floats(shape.out_channels, 3, 2);
        auto scratch = scratch_of(winograd_forward_scratch(shape, scheme, threads));
        winograd_forward(shape, scheme, x.data(), w.data(), bias.data(), true, y.data(), scratch.data(), threads);
      });
}

TEST(Winograd, BackwardDataIsAlmostAsAccurateAsProducts) {
  expect_near_sums(
      [](const ConvGeometry& g) { return two_floats(g.y, g.w); },
      []<class T>(const ConvGeometry& g, const std::vector<T>& dy, const std::vector<T>& w) {
        return backward_data(g, dy, w);
      },
      [](const Conv2dShape& shape, WinogradScheme scheme, const Floats& dy, const Floats& w, Floats& dx, int threads) {
        auto scratch = scratch_of(winograd_backward_data_scratch(shape, scheme, threads));
        winograd_backward_data(shape, scheme, dy.data(), w.data(), dx.data(), scratch.data(), threads);
      });
}

TEST(Winograd, BackwardWeightIsAlmostAsAccurateAsProducts) {
  expect_near_sums(
      [](const ConvGeometry& g) { return two_floats(g.x, g.y); },
      []<class T>(const ConvGeometry& g, const std::vector<T>& x, const std::vector<T>& dy) {
        return backward_weight(g, x, dy);
      },
      [](const Conv2dShape& shape, WinogradScheme scheme, const Floats& x, const Floats& dy, Floats& dw, int threads) {
        auto scratch = scratch_of(winograd_backward_weight_scratch(shape, scheme, threads));
        winograd_backward_weight(shape, scheme, x.data(), dy.data(), dw.data(), scratch.data(), threads);
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
