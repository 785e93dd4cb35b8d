#include "starling/kernels/cpu/conv/conv_panels.h"

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

Problem problem(std::int64_t channels, std::int64_t out, std::int64_t size, std::int64_t kernel, Pair stride,
                std::int64_t padding, std::int64_t dilation = 1) {
  return {{5, channels, size, size + 1},
          {out, channels, kernel, kernel},
          {stride, {padding, padding}, {dilation, dilation}, 1, {}}};
}

// Padded and not, strides of all kinds, images smaller and larger than a panel, one and several blocks of taps.
const std::vector<Problem> kProblems = {
    problem(64, 70, 7, 1, {1, 1}, 0),  problem(66, 64, 14, 3, {2, 2}, 1), problem(16, 64, 9, 2, {1, 1}, 0),
    problem(16, 65, 13, 5, {1, 1}, 2), problem(80, 64, 9, 1, {2, 2}, 0),  problem(17, 64, 21, 3, {3, 4}, 2, 2),
    problem(16, 64, 20, 3, {2, 1}, 1),
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
      for (int threads : {1, 3}) f(problem.geometry(), threads);
    }
  });
}

TEST(Panels, ForwardAgreesWithColumnsOfDoubles) {
  for_all([](const ConvGeometry& g, int threads) {
    const Floats x = random_floats(g.x.numel(), 1), w = random_floats(g.w.numel(), 2), b = random_floats(g.w[0], 3);
    const Columns columns(g, Columns::Pass::forward, 1);
    Doubles want(count(g.y));
    auto memory = scratch_of(columns.scratch_bytes());
    columns.forward(doubles(x).data(), doubles(w).data(), doubles(b).data(), GemmActivation::kRelu, want.data(),
                    memory.data());
    const PanelConv conv(conv_plans::image_shape(g), PanelConv::Pass::forward, threads);
    Floats got(want.size(), NAN);
    auto scratch = scratch_of(conv.scratch_bytes());
    conv.forward(x.data(), w.data(), b.data(), true, got.data(), scratch.data());
    expect_near(got, want);
  });
}

TEST(Panels, BackwardDataAgreesWithColumnsOfDoubles) {
  for_all([](const ConvGeometry& g, int threads) {
    const Floats dy = random_floats(g.y.numel(), 1), w = random_floats(g.w.numel(), 2);
    const Columns columns(g, Columns::Pass::data, 1);
    Doubles want(count(g.x));
    auto memory = scratch_of(columns.scratch_bytes());
    columns.backward_data(doubles(dy).data(), doubles(w).data(), want.data(), memory.data());
    const PanelConv conv(conv_plans::image_shape(g), PanelConv::Pass::data, threads);
    Floats got(want.size(), NAN);
    auto scratch = scratch_of(conv.scratch_bytes());
    conv.backward_data(dy.data(), w.data(), got.data(), scratch.data());
    expect_near(got, want);
  });
}

TEST(Panels, BackwardWeightAgreesWithColumnsOfDoubles) {
  for_all([](const ConvGeometry& g, int threads) {
    const Floats x = random_floats(g.x.numel(), 1), dy = random_floats(g.y.numel(), 2);
    const Columns columns(g, Columns::Pass::weight, 1);
    Doubles want(count(g.w));
    auto memory = scratch_of(columns.scratch_bytes());
    columns.backward_weight(doubles(x).data(), doubles(dy).data(), want.data(), memory.data());
    const PanelConv conv(conv_plans::image_shape(g), PanelConv::Pass::weight, threads);
    Floats got(want.size(), NAN);
    auto scratch = scratch_of(conv.scratch_bytes());
    conv.backward_weight(x.data(), dy.data(), got.data(), scratch.data());
    expect_near(got, want);
  });
}

}  // namespace
}  // namespace starling::kernels
