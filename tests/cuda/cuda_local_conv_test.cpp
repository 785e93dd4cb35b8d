// Locally connected layers at sizes that sample calls do not reach: several tiles of outputs, samples and taps.
#include <gtest/gtest.h>

#include "cuda/cuda_testing.h"
#include "starling/autograd/autograd.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/local_conv.h"
#include "starling/ops/api/local_norm.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/def/conv_geometry.h"
#include "starling/runtime/compile.h"

namespace starling::testing {
namespace {

struct Case {
  Shape x;
  std::int64_t out;
  op::LocalConv2dAttrs attrs;
};

class CudaLocalConv : public ::testing::TestWithParam<Case> {};

TEST_P(CudaLocalConv, AgreesWithTheCpuForwardAndBackward) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto& [x_shape, out, a] = GetParam();
  const Pair n = window_counts(x_shape, {a.kernel, a.stride, a.padding, a.dilation}, "test");
  manual_seed(3);
  const Tensor x = normal(x_shape), dy = normal({x_shape[0], out, n[0], n[1]});
  const Tensor w = normal({n[0] * n[1], out, x_shape[1] * a.kernel[0] * a.kernel[1]});
  const Tensor bias = normal({out, n[0], n[1]});
  const auto there = [](const Tensor& t) { return to(t, kGpu); };
  const auto here = [](const Tensor& t) { return to(t, kCpu).to_vector(); };
  EXPECT_LT(
      relative_error(here(local_conv2d(there(x), there(w), there(bias), a)), local_conv2d(x, w, bias, a).to_vector()),
      2e-3);
  const op::LocalConv2dGradAttrs to_x{x_shape, a.kernel, a.stride, a.padding, a.dilation};
  const op::LocalConv2dGradAttrs to_w{w.shape(), a.kernel, a.stride, a.padding, a.dilation};
  EXPECT_LT(relative_error(here(op::local_conv2d_backward_input(there(dy), there(w), to_x)),
                           op::local_conv2d_backward_input(dy, w, to_x).to_vector()),
            2e-3);
  EXPECT_LT(relative_error(here(op::local_conv2d_backward_weight(there(dy), there(x), to_w)),
                           op::local_conv2d_backward_weight(dy, x, to_w).to_vector()),
            2e-3);
}

INSTANTIATE_TEST_SUITE_P(Of, CudaLocalConv,
                         ::testing::Values(Case{{3, 3, 14, 13}, 5, {.kernel = {5, 5}}},
                                           Case{{16, 4, 16, 16}, 42, {.kernel = {10, 10}}},
                                           Case{{20, 2, 9, 9}, 70, {.kernel = {3, 3}, .padding = {1, 1}}},
                                           Case{{40, 3, 8, 10}, 17, {.kernel = {4, 3}, .stride = {2, 1}}},
                                           Case{{70, 1, 10, 9}, 33, {.kernel = {3, 2}, .dilation = {2, 3}}},
                                           Case{{64, 8, 12, 12}, 8, {.kernel = {10, 10}}},
                                           Case{{1, 5, 7, 7}, 1, {.kernel = {7, 7}}}));

class CudaLocalContrast : public OnGpu {};

TEST_F(CudaLocalContrast, NormAndItsGradientAgreeWithTheCpu) {
  manual_seed(4);
  const Tensor x = normal({3, 5, 33, 41}), dy = normal({3, 5, 33, 41});
  const auto found = [&](Device device) {
    const Tensor at = to(x, device).set_requires_grad();
    auto step = compile([&](const Tensor& slope) {
      const Tensor y = local_contrast_norm(at, {});
      const Tensor loss = sum(mul(y, slope));
      TensorList all{y.detach()};
      const Tensor variables[] = {at};
      for (const auto& gradient : gradients({&loss, 1}, variables)) all.push_back(gradient);
      return all;
    });
    const TensorList made = step(to(dy, device));
    return std::pair(to(made[0], kCpu).to_vector(), to(made[1], kCpu).to_vector());
  };
  const auto want = found(kCpu), got = found(kGpu);
  EXPECT_LT(relative_error(got.first, want.first), 1e-4);
  EXPECT_LT(relative_error(got.second, want.second), 1e-4);
}

}  // namespace
}  // namespace starling::testing
