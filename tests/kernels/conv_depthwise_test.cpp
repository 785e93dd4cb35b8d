#include "starling/kernels/cpu/conv/conv_depthwise.h"

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
using Columns = ColumnConv<double>;
std::size_t count(const Shape& shape) { return static_cast<std::size_t>(shape.numel()); }

struct Problem {
  Shape x, w;
  op::Conv2dAttrs attrs;
  ConvGeometry geometry() const { return conv_geometry(x, w, attrs, "test"); }
};

Problem depthwise(std::int64_t channels, std::int64_t size, std::int64_t kernel, Pair stride, std::int64_t padding,
                  std::int64_t dilation = 1, std::int64_t results = 1) {
  return {{3, channels, size, size + 2},
          {channels * results, 1, kernel, kernel},
          {stride, {padding, padding}, {dilation, dilation}, channels, {}}};
}

const std::vector<Problem> kProblems = {
    depthwise(40, 7, 3, {1, 1}, 1),       depthwise(5, 33, 3, {1, 1}, 1),        depthwise(7, 28, 5, {1, 1}, 2),
    depthwise(6, 20, 3, {2, 2}, 1),       depthwise(6, 21, 3, {2, 2}, 0, 1, 3),  depthwise(9, 17, 5, {2, 2}, 2, 2),
    depthwise(4, 25, 3, {3, 4}, 2, 2, 2), depthwise(12, 40, 7, {1, 2}, 3, 1, 2),
};

void expect_near(const Floats& got, const Doubles& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 3e-5 * (1 + std::abs(want[i]))) << "element " << i;
}

template <class F>
void for_all(const F& f) {
  testing::for_each_target([&] {
    for (const auto& problem : kProblems) {
      ASSERT_TRUE(DepthwiseConv::takes(conv_plans::image_shape(problem.geometry())));
      for (int threads : {1, 3}) f(problem.geometry(), threads);
    }
  });
}

TEST(Depthwise, ForwardAgreesWithColumnsOfDoubles) {
  for_all([](const ConvGeometry& g, int threads) {
    const Floats x = random_floats(g.x.numel(), 1), w = random_floats(g.w.numel(), 2), b = random_floats(g.w[0], 3);
    const Columns columns(g, Columns::Pass::forward, 1);
    Doubles want(count(g.y));
    auto memory = scratch_of(columns.scratch_bytes());
    columns.forward(doubles(x).data(), doubles(w).data(), doubles(b).data(), GemmActivation::kRelu, want.data(),
                    memory.data());
    const DepthwiseConv conv(conv_plans::image_shape(g), threads);
    Floats got(want.size(), NAN);
    auto scratch = scratch_of(conv.scratch_bytes());
    conv.forward(x.data(), w.data(), b.data(), true, got.data(), scratch.data());
    expect_near(got, want);
  });
}

TEST(Depthwise, BackwardDataAgreesWithColumnsOfDoubles) {
  for_all([](const ConvGeometry& g, int threads) {
    const Floats dy = random_floats(g.y.numel(), 1), w = random_floats(g.w.numel(), 2);
    const Columns columns(g, Columns::Pass::data, 1);
    Doubles want(count(g.x));
    auto memory = scratch_of(columns.scratch_bytes());
    columns.backward_data(doubles(dy).data(), doubles(w).data(), want.data(), memory.data());
    const DepthwiseConv conv(conv_plans::image_shape(g), threads);
    Floats got(want.size(), NAN);
    auto scratch = scratch_of(conv.scratch_bytes());
    conv.backward_data(dy.data(), w.data(), got.data(), scratch.data());
    expect_near(got, want);
  });
}

TEST(Depthwise, BackwardWeightAgreesWithColumnsOfDoubles) {
  for_all([](const ConvGeometry& g, int threads) {
    const Floats x = random_floats(g.x.numel(), 1), dy = random_floats(g.y.numel(), 2);
    const Columns columns(g, Columns::Pass::weight, 1);
    Doubles want(count(g.w));
    auto memory = scratch_of(columns.scratch_bytes());
    columns.backward_weight(doubles(x).data(), doubles(dy).data(), want.data(), memory.data());
    const DepthwiseConv conv(conv_plans::image_shape(g), threads);
    Floats got(want.size(), NAN);
    auto scratch = scratch_of(conv.scratch_bytes());
    conv.backward_weight(x.data(), dy.data(), got.data(), scratch.data());
    expect_near(got, want);
  });
}

}  // namespace
}  // namespace starling::kernels
