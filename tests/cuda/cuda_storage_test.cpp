#include <gtest/gtest.h>

#include "cuda/compiled_gradients.h"
#include "starling/kernels/storable.h"
#include "starling/nn/layers.h"
#include "starling/nn/normalize.h"
#include "starling/starling.h"

namespace starling::testing {
namespace {

class CudaStorage : public OnGpu {};

// Convolution, batch norm, relu, a residual and pooling: channels last from the first convolution on.
Tensor image_net(const std::vector<Tensor>& p) {
  const auto normed = [&](const Tensor& x) { return batch_norm(x, p[3], p[4]).y; };
  const Tensor first = relu(normed(conv2d(p[0], p[1], {}, {.padding = {1, 1}})));
  const Tensor second = relu(add(normed(conv2d(first, p[2], {}, {.padding = {1, 1}})), first));
  const Tensor pooled = max_pool2d(second, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  return mean(mul(pooled, pooled));
}

std::vector<Tensor> image_parameters(std::int64_t channels) {
  manual_seed(3);
  return {normal({4, channels, 18, 14}), normal({32, channels, 3, 3}, {.stddev = 0.2}),
          normal({32, 32, 3, 3}, {.stddev = 0.1}), uniform({32}, {.low = 0.5, .high = 1.5}), normal({32})};
}

// Pictures have three channels, which convolutions take otherwise than many. Where rounding changes which element of a
// window is the largest, gradients go elsewhere: the CPU's own in 16 bits are off by 0.06 (bf16) and 0.03 (f16).
TEST_F(CudaStorage, ImagesWithChannelsLastGiveTheSameGradients) {
  for (const std::int64_t channels : {8, 3}) {
    SCOPED_TRACE(channels);
    const auto in = image_parameters(channels);
    const Made want = gradients_on(kCpu, in, Precision::f32, image_net);
    expect_alike(gradients_on(kGpu, in, Precision::f32, image_net), want, 1e-2);
    expect_alike(gradients_on(kGpu, in, Precision::bf16, image_net), want, 0.1);
    expect_alike(gradients_on(kGpu, in, Precision::f16, image_net), want, 5e-2);
  }
}

// Layer norm and cross entropy read and write 16 bits beside f32 statistics.
TEST_F(CudaStorage, NormAndLossOfSixteenBitsAgreeWithTheCpu) {
  manual_seed(5);
  const std::vector<Tensor> in{normal({64, 200}), normal({200, 200}, {.stddev = 0.1}),
                               uniform({200}, {.low = 0.5, .high = 1.5}), normal({200}),
                               normal({1000, 200}, {.stddev = 0.1})};
  const Tensor labels = randint({64}, {.high = 1000});
  for (const Device device : {kGpu}) {
    const auto f = [&](Device where) {
      return [&, where](const std::vector<Tensor>& p) {
        const Tensor x = layer_norm(linear(p[0], p[1]), p[2], p[3]);
        return cross_entropy(linear(x, p[4]), to(labels, where));
      };
    };
    const Made want = gradients_on(kCpu, in, Precision::f32, f(kCpu));
    expect_alike(gradients_on(device, in, Precision::f32, f(device)), want, 5e-3);
    expect_alike(gradients_on(device, in, Precision::bf16, f(device)), want, 3e-2);
  }
}

}  // namespace
}  // namespace starling::testing
