#include "starling/kernels/cpu/conv/conv_im2col.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/conv_testing.h"
#include "kernels/simd_testing.h"
#include "starling/base/error.h"

namespace starling::kernels {
namespace {

using testing::Doubles;
using testing::Floats;
using testing::random_floats;
using testing::scratch_of;

std::int64_t x_size(const Conv2dShape& s) { return s.batch * s.in_channels * s.in_h * s.in_w; }
std::int64_t y_size(const Conv2dShape& s) { return s.batch * s.out_channels * s.positions(); }
std::int64_t w_size(const Conv2dShape& s) { return s.out_channels * s.taps(); }

// Calls f(x index, w index, y index) for every product of the convolution.
template <class F>
void for_products(const Conv2dShape& s, const F& f) {
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t o = 0; o < s.out_channels; ++o) {
      for (std::int64_t oh = 0; oh < s.out_h(); ++oh) {
        for (std::int64_t ow = 0; ow < s.out_w(); ++ow) {
          const std::int64_t y = ((n * s.out_channels + o) * s.out_h() + oh) * s.out_w() + ow;
          for (std::int64_t i = 0; i < s.group_in(); ++i) {
            const std::int64_t channel = o / s.group_out() * s.group_in() + i;
            for (std::int64_t kh = 0; kh < s.kernel_h; ++kh) {
              for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
                const std::int64_t h = oh * s.stride_h - s.pad_h + kh * s.dilation_h;
                const std::int64_t w = ow * s.stride_w - s.pad_w + kw * s.dilation_w;
                if (h < 0 || h >= s.in_h || w < 0 || w >= s.in_w) continue;
                f(((n * s.in_channels + channel) * s.in_h + h) * s.in_w + w,
                  ((o * s.group_in() + i) * s.kernel_h + kh) * s.kernel_w + kw, y);
              }
            }
          }
        }
      }
    }
  }
}

void expect_close(const Floats& got, const Doubles& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance) << "element " << i;
}

Floats forward(const Conv2dShape& s, const Floats& x, const Floats& w, const float* bias, GemmActivation f,
               int threads) {
  Floats y(static_cast<std::size_t>(y_size(s)), NAN);
  auto scratch = scratch_of(conv2d_forward_scratch(s, threads));
  conv2d_forward(s, x.data(), w.data(), bias, f, y.data(), scratch.data(), threads);
  return y;
}

Floats backward_data(const Conv2dShape& s, const Floats& dy, const Floats& w, int threads) {
  Floats dx(static_cast<std::size_t>(x_size(s)), NAN);
  auto scratch = scratch_of(conv2d_backward_data_scratch(s, threads));
  conv2d_backward_data(s, dy.data(), w.data(), dx.data(), scratch.data(), threads);
  return dx;
}

void backward_weight(const Conv2dShape& s, const Floats& x, const Floats& dy, Floats& dw, float* db, bool accumulate,
                     int threads) {
  auto scratch = scratch_of(conv2d_backward_weight_scratch(s, threads));
  conv2d_backward_weight(s, x.data(), dy.data(), dw.data(), db, accumulate, scratch.data(), threads);
}

std::string name_of(const Conv2dShape& s, int threads) {
  return fmt::format("{}x{}x{}x{} -> {} kernel {}x{} stride {}x{} pad {}x{} dilation {}x{} groups {} threads {}",
                     s.batch, s.in_channels, s.in_h, s.in_w, s.out_channels, s.kernel_h, s.kernel_w, s.stride_h,
                     s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups, threads);
}

const std::vector<Conv2dShape> kShapes = {
    {.batch = 3, .in_channels = 1, .in_h = 28, .in_w = 28, .out_channels = 20, .kernel_h = 5, .kernel_w = 5},
    {.batch = 5, .in_channels = 20, .in_h = 12, .in_w = 12, .out_channels = 50, .kernel_h = 5, .kernel_w = 5},
    {.batch = 2,
     .in_channels = 3,
     .in_h = 9,
     .in_w = 11,
     .out_channels = 7,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.batch = 2,
     .in_channels = 3,
     .in_h = 13,
     .in_w = 10,
     .out_channels = 5,
     .kernel_h = 3,
     .kernel_w = 2,
     .stride_h = 2,
     .stride_w = 3,
     .pad_h = 2,
     .pad_w = 1},
    {.batch = 1,
     .in_channels = 4,
     .in_h = 17,
     .in_w = 23,
     .out_channels = 6,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 2,
     .pad_w = 4,
     .dilation_h = 2,
     .dilation_w = 3},
    {.batch = 2,
     .in_channels = 6,
     .in_h = 8,
     .in_w = 8,
     .out_channels = 9,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .groups = 3},
    {.batch = 2,
     .in_channels = 8,
     .in_h = 7,
     .in_w = 7,
     .out_channels = 8,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1,
     .groups = 8},
    {.batch = 3, .in_channels = 16, .in_h = 7, .in_w = 9, .out_channels = 33},
    {.batch = 2, .in_channels = 16, .in_h = 8, .in_w = 8, .out_channels = 33, .groups = 1},
    {.batch = 2, .in_channels = 5, .in_h = 7, .in_w = 9, .out_channels = 3, .stride_h = 2, .stride_w = 2},
    {.batch = 1, .in_channels = 2, .in_h = 5, .in_w = 40, .out_channels = 3, .kernel_h = 1, .kernel_w = 19, .pad_w = 9},
    {.batch = 2, .in_channels = 2, .in_h = 6, .in_w = 30, .out_channels = 3, .kernel_h = 2, .kernel_w = 11, .pad_w = 3},
    {.batch = 2,
     .in_channels = 2,
     .in_h = 1,
     .in_w = 1,
     .out_channels = 3,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.batch = 2,
     .in_channels = 48,
     .in_h = 40,
     .in_w = 40,
     .out_channels = 10,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1},  // cut into bands
    {.batch = 1,
     .in_channels = 48,
     .in_h = 41,
     .in_w = 41,
     .out_channels = 4,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2},
    {.batch = 0, .in_channels = 2, .in_h = 5, .in_w = 5, .out_channels = 3, .kernel_h = 3, .kernel_w = 3}};

template <class F>
void for_all_shapes(const F& f) {
  for (const Conv2dShape& s : kShapes) {
    for (int threads : {1, 2, 3}) {
      SCOPED_TRACE(name_of(s, threads));
      f(s, threads);
    }
  }
}

TEST(ConvIm2col, ConvolvesForward) {
  for_all_shapes([](const Conv2dShape& s, int threads) {
    const Floats x = random_floats(x_size(s), 1);
    const Floats w = random_floats(w_size(s), 2);
    Doubles expected(static_cast<std::size_t>(y_size(s)));
    for_products(s, [&](auto xi, auto wi, auto yi) { expected[yi] += static_cast<double>(x[xi]) * w[wi]; });
    expect_close(forward(s, x, w, nullptr, GemmActivation::kNone, threads), expected, 1e-4);
  });
}

TEST(ConvIm2col, AddsBiasAndActivates) {
  for_all_shapes([](const Conv2dShape& s, int threads) {
    const Floats x = random_floats(x_size(s), 1);
    const Floats w = random_floats(w_size(s), 2);
    const Floats bias = random_floats(s.out_channels, 3);
    Doubles expected(static_cast<std::size_t>(y_size(s)));
    for_products(s, [&](auto xi, auto wi, auto yi) { expected[yi] += static_cast<double>(x[xi]) * w[wi]; });
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::int64_t channel = static_cast<std::int64_t>(i) / s.positions() % s.out_channels;
      expected[i] = std::max(0.0, expected[i] + bias[static_cast<std::size_t>(channel)]);
    }
    expect_close(forward(s, x, w, bias.data(), GemmActivation::kRelu, threads), expected, 1e-4);
  });
}

TEST(ConvIm2col, GivesTheGradientOfTheImage) {
  for_all_shapes([](const Conv2dShape& s, int threads) {
    const Floats dy = random_floats(y_size(s), 1);
    const Floats w = random_floats(w_size(s), 2);
    Doubles expected(static_cast<std::size_t>(x_size(s)));
    for_products(s, [&](auto xi, auto wi, auto yi) { expected[xi] += static_cast<double>(dy[yi]) * w[wi]; });
    expect_close(backward_data(s, dy, w, threads), expected, 1e-4);
  });
}

TEST(ConvIm2col, GivesTheGradientOfWeightsAndBias) {
  for_all_shapes([](const Conv2dShape& s, int threads) {
    const Floats x = random_floats(x_size(s), 1);
    const Floats dy = random_floats(y_size(s), 2);
    for (bool accumulate : {false, true}) {
      Doubles dw_expected(static_cast<std::size_t>(w_size(s)), accumulate ? 0.5 : 0);
      Doubles db_expected(static_cast<std::size_t>(s.out_channels), accumulate ? 0.5 : 0);
      for_products(s, [&](auto xi, auto wi, auto yi) { dw_expected[wi] += static_cast<double>(dy[yi]) * x[xi]; });
      for (std::size_t i = 0; i < dy.size(); ++i) {
        db_expected[static_cast<std::size_t>(static_cast<std::int64_t>(i) / s.positions() % s.out_channels)] += dy[i];
      }
      Floats dw(dw_expected.size(), 0.5F);
      Floats db(db_expected.size(), 0.5F);
      backward_weight(s, x, dy, dw, db.data(), accumulate, threads);
      expect_close(dw, dw_expected, 3e-4);
      expect_close(db, db_expected, 3e-4);
      Floats without_bias(dw_expected.size(), 0.5F);
      backward_weight(s, x, dy, without_bias, nullptr, accumulate, threads);
      EXPECT_EQ(dw, without_bias);
    }
  });
}

TEST(ConvIm2col, WorksOnEveryInstructionSet) {
  for (const Conv2dShape& s : kShapes) {
    SCOPED_TRACE(name_of(s, 1));
    const Floats x = random_floats(x_size(s), 1);
    const Floats w = random_floats(w_size(s), 2);
    const Floats dy = random_floats(y_size(s), 3);
    Doubles y_expected(dy.size());
    Doubles dx_expected(x.size());
    Doubles dw_expected(w.size());
    for_products(s, [&](auto xi, auto wi, auto yi) {
      y_expected[yi] += static_cast<double>(x[xi]) * w[wi];
      dx_expected[xi] += static_cast<double>(dy[yi]) * w[wi];
      dw_expected[wi] += static_cast<double>(dy[yi]) * x[xi];
    });
    starling::testing::for_each_target([&] {
      expect_close(forward(s, x, w, nullptr, GemmActivation::kNone, 1), y_expected, 1e-4);
      expect_close(backward_data(s, dy, w, 1), dx_expected, 1e-4);
      Floats dw(w.size());
      backward_weight(s, x, dy, dw, nullptr, false, 1);
      expect_close(dw, dw_expected, 3e-4);
    });
  }
}

TEST(ConvIm2col, GivesTheSameBitsEveryTime) {
  const Conv2dShape s = {
      .batch = 9, .in_channels = 20, .in_h = 12, .in_w = 12, .out_channels = 50, .kernel_h = 5, .kernel_w = 5};
  const Floats x = random_floats(x_size(s), 1);
  const Floats w = random_floats(w_size(s), 2);
  const Floats dy = random_floats(y_size(s), 3);
  for (int threads : {1, 2, 3}) {
    Floats first(static_cast<std::size_t>(w_size(s)));
    backward_weight(s, x, dy, first, nullptr, false, threads);
    for (int again = 0; again < 5; ++again) {
      Floats dw(first.size());
      backward_weight(s, x, dy, dw, nullptr, false, threads);
      ASSERT_EQ(dw, first);
    }
    EXPECT_EQ(forward(s, x, w, nullptr, GemmActivation::kNone, threads),
              forward(s, x, w, nullptr, GemmActivation::kNone, 1));
    EXPECT_EQ(backward_data(s, dy, w, threads), backward_data(s, dy, w, 1));
  }
}

TEST(ConvIm2col, RefusesShapesThatDoNotFit) {
  EXPECT_THROW(
      conv2d_forward_scratch({.batch = 1, .in_channels = 3, .in_h = 5, .in_w = 5, .out_channels = 4, .groups = 2}, 1),
      Error);
  EXPECT_THROW(
      conv2d_forward_scratch({.batch = 1, .in_channels = 1, .in_h = 2, .in_w = 5, .out_channels = 1, .kernel_h = 3}, 1),
      Error);
}

}  // namespace
}  // namespace starling::kernels
