#include <gtest/gtest.h>

#include "runtime/step_testing.h"

namespace starling::runtime {
namespace {

// Two wide linear maps: one through an activation whose gradient needs what was before it, one onto a residual.
struct WideMaps {
  Tensor w1, b1, w2, b2, residual;

  explicit WideMaps(DType dtype) {
    manual_seed(11);
    const auto parameter = [&](const char* name, const Shape& shape) {
      Tensor p = cast(mul(normal(shape), 0.3), dtype);
      p.set_name(name);
      p.set_requires_grad();
      return p;
    };
    w1 = parameter("w1", {520, 16});
    b1 = parameter("b1", {520});
    w2 = parameter("w2", {520, 16});
    b2 = parameter("b2", {520});
    residual = cast(normal({8100, 520}), dtype);
  }
  std::vector<Tensor> parameters() const { return {w1, b1, w2, b2}; }
  Tensor operator()(const Tensor& x) const {
    return add(mean(square(gelu(linear(x, w1, b1)))), mean(square(add(residual, linear(x, w2, b2)))));
  }
};

int count(const graph::Graph& graph, std::string_view op) {
  int found = 0;
  for (const auto& node : graph.nodes()) found += is_op(node, op);
  return found;
}

class EpilogueRewrite : public ::testing::TestWithParam<DType> {};

TEST_P(EpilogueRewrite, EndsWideMapsInTrainingAndInference) {
  const double tolerance = GetParam() == DType::f64 ? 1e-11 : 1e-5;
  const WideMaps part(GetParam());
  const Tensor x = cast(normal({8100, 16}), GetParam());
  const auto step = [&](const Tensor& input) {
    const Tensor loss = part(input);
    const auto parameters = part.parameters();
    TensorList all = gradients({&loss, 1}, parameters);
    all.push_back(loss.detach());
    return all;
  };
  const TensorList eager = step(x);
  auto compiled = compile(step);
  const TensorList got = compiled(x);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(testing::relative_l2(got[i], eager[i]), tolerance) << i;
  EXPECT_EQ(count(compiled.graph(), "linear_epilogue"), 2) << compiled.graph();
  EXPECT_EQ(count(compiled.graph(), "gelu"), 0);

  const NoGrad no_grad;
  auto forward = compile([&](const Tensor& input) { return part(input); });
  EXPECT_LT(testing::relative_l2(forward(x), part(x)), tolerance);
  EXPECT_EQ(count(forward.graph(), "linear_epilogue"), 2) << forward.graph();
  auto plain = compile([&](const Tensor& input) { return part(input); }, {.disable = {"epilogues"}});
  plain(x);
  EXPECT_EQ(count(plain.graph(), "linear_epilogue"), 0);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EpilogueRewrite, ::testing::Values(DType::f32, DType::f64));

TEST(FoldBatchNormRewrite, LeavesOneConvolutionForEachBlockInInference) {
  manual_seed(2);
  const Tensor w = mul(normal({8, 4, 3, 3}), 0.2), mean = normal({8}), gamma = normal({8}), beta = normal({8});
  const Tensor var = add(uniform({8}), 0.5), x = normal({2, 4, 12, 12});
  const auto block = [&](const Tensor& input) {
    return relu(batch_norm_infer(conv2d(input, w, {}, {.padding = {1, 1}}), mean, var, gamma, beta));
  };
  auto compiled = compile(block);
  EXPECT_LT(testing::relative_l2(compiled(x), block(x)), 1e-5);
  EXPECT_EQ(count(compiled.graph(), "batch_norm_infer"), 0) << compiled.graph();
  EXPECT_EQ(count(compiled.graph(), "relu"), 0);
  auto plain = compile(block, {.disable = {"fold_batch_norm", "norm_activation"}});
  EXPECT_LT(testing::relative_l2(plain(x), block(x)), 1e-5);
  EXPECT_EQ(count(plain.graph(), "relu") + count(plain.graph(), "batch_norm_relu"), 1) << plain.graph();
}

}  // namespace
}  // namespace starling::runtime
