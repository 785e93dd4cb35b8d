#include <gtest/gtest.h>

#include "cuda/cuda_testing.h"
#include "starling/graph/printer.h"
#include "starling/kernels/eager.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/pool.h"
#include "starling/ops/def/registry.h"
#include "starling/starling.h"
#include "starling/train/loop/autocast.h"

namespace starling::testing {
namespace {

class CudaImages : public OnGpu {};

// Ops that passes make for GPUs alone, on their sample calls.
TEST_F(CudaImages, OpsMadeForGpusAgreeWithTheReference) {
  std::mt19937 engine(3);
  for (const char* name : {"conv2d_residual", "max_pool2d_backward", "batch_norm_positive_backward"}) {
    const OpDef& op = find_op(name);
    for (const OpCase& sample : op.cases()) {
      TensorList host, device;
      for (const CaseInput& input : sample.in) {
        host.push_back(drawn(input, engine));
        device.push_back(to(host.back(), kGpu));
      }
      const TensorList want = [&] {
        const kernels::ReferenceScope reference;
        return apply(op, host, sample.attrs);
      }();
      const TensorList got = apply(op, device, sample.attrs);
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_LE(relative_error(got[i].to_vector(), want[i].to_vector()), 2e-3)
            << name << "(" << sample.attrs.print() << "), result " << i << " of " << to_string(want[i].type());
    }
  }
}

// Windows that overlap, leave gaps, are dilated, and reach over the edge.
TEST_F(CudaImages, GradientsOfPoolingGoToTheLargestOfEveryWindow) {
  struct Case {
    Shape x;
    op::MaxPoolAttrs windows;
  };
  manual_seed(4);
  for (const Case& c : {Case{{2, 16, 11, 13}, {{3, 3}, {2, 2}, {1, 1}}}, Case{{3, 5, 9, 10}, {{2, 2}}},
                        Case{{1, 24, 12, 9}, {{3, 2}, {1, 1}, {0, 1}, {2, 3}}},
                        Case{{2, 8, 10, 10}, {{2, 2}, {3, 3}, {0, 0}, {1, 1}, true}}}) {
    // A convolution that copies puts channels last; of values that 16 bits hold nothing is rounded before the sums.
    const Tensor x = cast(cast(normal(c.x), DType::bf16), DType::f32);
    const Tensor filters = reshape(eye(c.x[1]), {c.x[1], c.x[1], 1, 1});
    const auto gradient = [&](Device device, Precision precision) {
      CompiledFunction f(
          [&](std::span<const Tensor> in) {
            const Tensor leaf = in[0].detach().set_requires_grad(true);
            Tensor y;
            {
              const train::Autocast autocast(precision);
              y = max_pool2d(conv2d(leaf, in[1]), c.windows);
            }
            y = cast(y, DType::f32);
            const Tensor loss = sum(mul(y, y));
            return gradients({&loss, 1}, {&leaf, 1});
          },
          {});
      const Tensor in[] = {to(x, device), to(filters, device)};
      return to(f.call(in)[0], kCpu).to_vector();
    };
    const auto want = gradient(kCpu, Precision::f32);
    EXPECT_LE(relative_error(gradient(kGpu, Precision::f32), want), 1e-6) << to_string(c.x);
    EXPECT_LE(relative_error(gradient(kGpu, Precision::bf16), want), 5e-3) << to_string(c.x);
  }
}

// Convolutions, normalisation by running statistics, a residual: p[0] is the image, p[1..3] filters, then the
// statistics.
Tensor normed_net(std::span<const Tensor> p) {
  const auto normed = [&](const Tensor& x) { return batch_norm_infer(x, p[4], p[5], p[6], p[7]); };
  const Tensor first = relu(normed(conv2d(p[0], p[1], {}, {.stride = {2, 2}, .padding = {3, 3}})));
  const Tensor second = relu(add(normed(conv2d(first, p[2], {}, {.padding = {1, 1}})), first));
  const Tensor aside = normed(conv2d(second, p[3], {}, {.stride = {2, 2}}));
  return relu(add(normed(conv2d(second, p[2], {}, {.stride = {2, 2}, .padding = {1, 1}})), aside));
}

TEST_F(CudaImages, InferenceFoldsNormsAndResidualsIntoConvolutions) {
  manual_seed(6);
  const std::vector<Tensor> host{normal({3, 3, 37, 30}),
                                 normal({16, 3, 7, 7}, {.stddev = 0.1}),
                                 normal({16, 16, 3, 3}, {.stddev = 0.1}),
                                 normal({16, 16, 1, 1}, {.stddev = 0.3}),
                                 normal({16}, {.stddev = 0.3}),
                                 uniform({16}, {.low = 0.5, .high = 2}),
                                 uniform({16}, {.low = 0.5, .high = 1.5}),
                                 normal({16}, {.stddev = 0.3})};
  const auto on = [&](Device device, Precision precision, std::string* graph) {
    CompiledFunction f(
        [&](std::span<const Tensor> in) {
          const train::Autocast autocast(precision);
          return TensorList{normed_net(in)};
        },
        {});
    std::vector<Tensor> in;
    for (const Tensor& t : host) in.push_back(to(t, device));
    const Tensor y = to(f.call(in)[0], kCpu);
    if (graph) *graph = print(f.graph());
    return y.to_vector();
  };
  const auto want = on(kCpu, Precision::f32, nullptr);
  const std::pair<Precision, double> precisions[] = {
      {Precision::f32, 3e-3}, {Precision::f16, 5e-3}, {Precision::bf16, 2e-2}};
  for (const auto& [precision, tolerance] : precisions) {
    std::string graph;
    EXPECT_LE(relative_error(on(kGpu, precision, &graph), want), tolerance) << to_string(precision);
    EXPECT_EQ(graph.find("batch_norm_infer"), std::string::npos) << graph;
    EXPECT_NE(graph.find("conv2d_residual"), std::string::npos) << graph;
  }
}

}  // namespace
}  // namespace starling::testing
