#include <gtest/gtest.h>

#include "cuda/cuda_testing.h"
#include "runtime/placement_testing.h"
#include "runtime/step_testing.h"

namespace starling::testing {
namespace {

class CudaPlacement : public OnGpu {
 protected:
  static graph::PlacementOptions both() {
    graph::PlacementOptions options;
    options.devices = {{.device = kCpu, .threads = 1}, {.device = kGpu}};
    return options;
  }
};

TEST_F(CudaPlacement, ValuesGoToTheGpuAndBackOnceForAllReaders) {
  auto f = [](std::span<const Tensor> in) {
    const Tensor a = exp(in[0]);
    const Tensor p = matmul(a, in[1]), q = matmul(in[1], a);
    return TensorList{add(p, q), tanh(p)};
  };
  manual_seed(3);
  const std::vector<Tensor> in{normal({48, 48}, {.stddev = 0.3}), normal({48, 48})};
  auto options = both();
  options.constraints = {{"op:exp", kCpu}, {"op:matmul", kGpu}, {"op:add", kCpu}, {"op:tanh", kCpu}};
  PlacedFunction placed(f, in, options);
  EXPECT_EQ(placed.count_on(1, "matmul"), 2);
  EXPECT_EQ(placed.count_on(0, "send"), 2);
  EXPECT_EQ(placed.count_on(1, "send"), 2);
  const TensorList want = f(in);
  for (int run = 0; run < 3; ++run) {
    const auto& got = placed(in);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LT(relative_error(got[i].to_vector(), want[i].to_vector()), 1.5e-3);
  }
}

TEST_F(CudaPlacement, ALayerThatTrainsOnTheGpuKeepsTheHostsVariablesInStep) {
  Bench plain("mlp", 16, DType::f32), split("mlp", 16, DType::f32);
  auto options = both();
  options.constraints = {{"var:" + split.net.parameters()[2].name(), kGpu}};
  auto one = compile([&](const Tensor& x, const Tensor& y) { return plain.step(x, y); }, {.threads = 1});
  auto two = compile([&](const Tensor& x, const Tensor& y) { return split.step(x, y); },
                     {.threads = 1, .strategy = placed(options)});
  for (int step = 0; step < 5; ++step) {
    const double want = one(plain.x, plain.y).item(), got = two(split.x, split.y).item();
    EXPECT_NEAR(got, want, 1e-2 * want) << "step " << step;
  }
  for (std::size_t i = 0; i < plain.net.parameters().size(); ++i) {
    EXPECT_EQ(split.net.parameters()[i].device(), kCpu);
    EXPECT_LT(relative_l2(split.net.parameters()[i], plain.net.parameters()[i]), 1e-2) << i;
  }
  EXPECT_EQ(two.programs(), 1u);
}

TEST_F(CudaPlacement, AnOpWithoutAKernelThereIsNamed) {
  auto options = both();
  options.constraints = {{"op:delay", kGpu}};
  const Tensor x = zeros({3});
  EXPECT_THROW(PlacedFunction([](std::span<const Tensor> in) { return TensorList{delay(in[0], 1)}; }, {&x, 1}, options),
               Error);
}

}  // namespace
}  // namespace starling::testing
