#include <gtest/gtest.h>

#include "cuda/cuda_testing.h"
#include "starling/kernels/storable.h"
#include "starling/nn/layers.h"
#include "starling/nn/normalize.h"
#include "starling/starling.h"
#include "starling/train/loop/autocast.h"

namespace starling::testing {
namespace {

using Made = std::vector<std::vector<double>>;

// Loss and gradients of a function of tensors, compiled on a device.
template <class F>
Made gradients_on(Device device, const std::vector<Tensor>& host, Precision precision, F f) {
  std::vector<Tensor> in;
  for (const auto& tensor : host) in.push_back(to(tensor, device).detach());
  CompiledFunction step(
      [&](std::span<const Tensor> given) {
        std::vector<Tensor> leaves;
        for (const auto& tensor : given) leaves.push_back(tensor.detach().set_requires_grad(true));
        Tensor loss;
        {
          const train::Autocast autocast(precision);
          loss = f(leaves);
        }
        if (is_half(loss.dtype())) loss = cast(loss, DType::f32);
        TensorList out{loss};
        for (const auto& gradient : gradients({&loss, 1}, leaves)) out.push_back(gradient);
        return out;
      },
      {});
  Made made;
  for (const auto& tensor : step.call(in)) made.push_back(to(tensor, kCpu).to_vector());
  return made;
}

void expect_alike(const Made& got, const Made& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LE(relative_error(got[i], want[i]), tolerance) << "result " << i;
}

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

// Pictures have three channels, which are padded for tensor cores where that is faster.
TEST_F(CudaStorage, ImagesWithChannelsLastGiveTheSameGradients) {
  for (const std::int64_t channels : {8, 3}) {
    SCOPED_TRACE(channels);
    const auto in = image_parameters(channels);
    const Made want = gradients_on(kCpu, in, Precision::f32, image_net);
    expect_alike(gradients_on(kGpu, in, Precision::f32, image_net), want, 1e-2);
    expect_alike(gradients_on(kGpu, in, Precision::bf16, image_net), want, 0.1);
    expect_alike(gradients_on(kGpu, in, Precision::f16, image_net), want, 2e-2);
  }
}

// Attention on tensor cores: sizes that fill no tile, with and without the causal mask, other numbers of keys.
TEST_F(CudaStorage, AttentionInSixteenBitsAgreesWithTheCpu) {
  struct Sizes {
    std::int64_t queries, keys, d;
    bool causal;
  };
  for (const auto& s : {Sizes{200, 200, 64, true}, Sizes{130, 75, 64, false}, Sizes{33, 257, 32, true},
                        Sizes{1, 9, 64, false}, Sizes{512, 512, 32, true}}) {
    manual_seed(5);
    const std::vector<Tensor> in{normal({2, 3, s.queries, s.d}), normal({2, 3, s.keys, s.d}),
                                 normal({2, 3, s.keys, s.d}), normal({2, 3, s.queries, s.d})};
    const auto f = [&](const std::vector<Tensor>& p) {
      return sum(mul(scaled_dot_product_attention(p[0], p[1], p[2], {.causal = s.causal}), p[3]));
    };
    const Made want = gradients_on(kCpu, in, Precision::f32, f);
    for (const Precision precision : {Precision::bf16, Precision::f16}) {
      SCOPED_TRACE(::testing::Message() << s.queries << " queries, " << s.keys << " keys in " << to_string(precision));
      Made got = gradients_on(kGpu, in, precision, f);
      got[0] = want[0];  // a sum of thousands of terms around 0
      expect_alike(got, want, 2e-2);
    }
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
