#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/step_testing.h"
#include "starling/autograd/autograd.h"
#include "starling/graph/printer.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/runtime/compile.h"

namespace starling::runtime {
namespace {

using testing::relative_l2;

int count_of(const graph::Graph& graph, const char* op) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                        [&](const graph::Node& node) { return node.op->name == op; }));
}

// The norms of a residual block without its convolutions, and the gradients of all operands.
TensorList block(const Tensor& x, const Tensor& w, const Tensor& b) {
  TensorList leaves{x.detach(), w.detach(), b.detach()};
  for (auto& leaf : leaves) leaf.set_requires_grad();
  const Tensor first = relu(batch_norm(leaves[0], leaves[1], leaves[2]).y);
  const Tensor scaled = mul(first, 1.25);  // in place of a convolution
  const BatchNormResult second = batch_norm(scaled, leaves[2], leaves[1]);
  const Tensor out = relu(add(second.y, leaves[0]));
  const Tensor loss = sum(mul(out, out));
  TensorList all = gradients({&loss, 1}, {leaves.data(), leaves.size()});
  all.push_back(out.detach());
  all.push_back(second.var.detach());
  return all;
}

TEST(NormActivation, OfAResidualBlockEqualsEager) {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{4, 3, 7, 5}, Shape{3, 17, 4}, Shape{2, 8, 33, 3}}) {
      const Tensor x = uniform(shape, {.low = -2, .high = 2, .dtype = dtype});
      const Tensor w = uniform({shape[1]}, {.low = 0.5, .high = 1.5, .dtype = dtype});
      const Tensor b = uniform({shape[1]}, {.low = -0.5, .high = 0.5, .dtype = dtype});
      const TensorList want = block(x, w, b);
      for (int threads : {1, 3}) {
        auto compiled = compile(block, {.threads = threads});
        const TensorList got = compiled(x, w, b);
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_LE(relative_l2(got[i], want[i]), dtype == DType::f32 ? 2e-5 : 1e-11) << i << to_string(shape);
        EXPECT_EQ(count_of(compiled.graph(), "batch_norm_relu"), 2) << print(compiled.graph());
        EXPECT_EQ(count_of(compiled.graph(), "batch_norm_relu_backward"), 1) << print(compiled.graph());
        EXPECT_EQ(count_of(compiled.graph(), "relu"), 0);
      }
    }
  }
}

TEST(NormActivation, OfGivenStatisticsEqualsEager) {
  const Tensor x = normal({3, 6, 9, 9}), r = normal({3, 6, 9, 9});
  const Tensor mean = normal({6}), var = uniform({6}, {.low = 0.5, .high = 2}), w = normal({6}), b = normal({6});
  const auto f = [&](const Tensor& a, const Tensor& c) { return relu(add(batch_norm_infer(a, mean, var, w, b), c)); };
  auto compiled = compile(f);
  EXPECT_LE(relative_l2(compiled(x, r), f(x, r)), 1e-6);
  EXPECT_EQ(count_of(compiled.graph(), "batch_norm_infer"), 0) << print(compiled.graph());
}

}  // namespace
}  // namespace starling::runtime
