#include <gtest/gtest.h>

#include <cmath>

#include "runtime/step_testing.h"

namespace starling::runtime {
namespace {

using Loss = Tensor (*)(const Tensor& logits, const Tensor& labels);

struct Formulation {
  const char* name;
  Loss loss;
};

Tensor picked(const Tensor& log_probabilities, const Tensor& labels) {
  return gather(log_probabilities, unsqueeze(labels, {1}), 1);
}

const Formulation kFormulations[] = {
    {"nll_mean", [](const Tensor& x, const Tensor& y) { return nll(log_softmax(x), y); }},
    {"nll_sum", [](const Tensor& x, const Tensor& y) { return nll(log_softmax(x), y, {.reduction = Reduction::sum}); }},
    {"nll_none", [](const Tensor& x,
                    const Tensor& y) { return mean(square(nll(log_softmax(x), y, {.reduction = Reduction::none}))); }},
    {"nll_ignoring", [](const Tensor& x, const Tensor& y) { return nll(log_softmax(x), y, {.ignore_index = 2}); }},
    {"nll_weighted",
     [](const Tensor& x, const Tensor& y) {
       return nll(log_softmax(x), y, {.weight = add(mul(cast(arange(0, 7), x.dtype()), 0.1), 0.5)});
     }},
    {"one_hot",
     [](const Tensor& x, const Tensor& y) {
       return neg(mean(sum(mul(one_hot(y, 7, x.dtype()), log_softmax(x)), {.axes = {1}})));
     }},
    {"one_hot_of_all",
     [](const Tensor& x, const Tensor& y) {
       return mul(sum(mul(log_softmax(x), cast(one_hot(y, 7, DType::i64), x.dtype()))), -1.0 / 9);
     }},
    {"gather", [](const Tensor& x, const Tensor& y) { return neg(mean(picked(log_softmax(x), y))); }},
    {"log_of_softmax", [](const Tensor& x, const Tensor& y) { return neg(mean(picked(log(softmax(x)), y))); }},
    {"log_of_softmax_one_hot",
     [](const Tensor& x, const Tensor& y) {
       return neg(mean(sum(mul(one_hot(y, 7, x.dtype()), log(softmax(x))), {.axes = {-1}})));
     }},
    {"weighted_rows",
     [](const Tensor& x, const Tensor& y) {
       return sum(mul(op::label_pick(log_softmax(x), y), cast(add(y, 1), x.dtype())));
     }},
};

class CrossEntropyRewrite : public ::testing::TestWithParam<Formulation> {};

void check_formulation(const Formulation& formulation, DType dtype, double tolerance) {
  manual_seed(5);
  const Tensor x = cast(normal({9, 7}), dtype);
  const Tensor labels = cast(uniform({9}, {.low = 0, .high = 6.999}), DType::i64);
  const auto step = [&](const Tensor& logits, const Tensor& y) {
    Tensor inner = mul(logits, 1.5);
    inner.set_requires_grad();
    const Tensor loss = formulation.loss(inner, y);
    TensorList all = gradients({&loss, 1}, std::vector<Tensor>{inner});
    all.push_back(loss.detach());
    return all;
  };
  const TensorList eager = step(x, labels);
  auto compiled = compile(step);
  const TensorList got = compiled(x, labels);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(testing::relative_l2(got[i], eager[i]), tolerance) << i;
  int losses = 0, gradients_of_losses = 0;
  for (const auto& node : compiled.graph().nodes()) {
    const bool backward = node.op->name.ends_with("_backward");
    losses += node.op->name.starts_with("cross_entropy") && !backward;
    gradients_of_losses += node.op->name.starts_with("cross_entropy") && backward;
    EXPECT_FALSE(node.op->name.starts_with("log_softmax") || is_op(node, "one_hot")) << compiled.graph();
  }
  EXPECT_EQ(losses, 1) << compiled.graph();
  EXPECT_EQ(gradients_of_losses, 1) << compiled.graph();
}

TEST_P(CrossEntropyRewrite, MakesNoLogProbabilitiesAndEqualsEager) {
  check_formulation(GetParam(), DType::f32, 1e-5);
  check_formulation(GetParam(), DType::f64, 1e-11);
}

INSTANTIATE_TEST_SUITE_P(Formulations, CrossEntropyRewrite, ::testing::ValuesIn(kFormulations),
                         [](const auto& info) { return std::string(info.param.name); });

// Loss and gradient of each row do not depend on what its logits have in common.
TEST(CompiledCrossEntropy, KeepsItsDigitsFarFromZero) {
  const double shift = 1e4;
  const std::vector<double> near{0.5, 1, -2, 3, 0, 2.5};
  std::vector<double> far = near;
  for (double& v : far) v += shift;
  const Tensor labels = from_host<std::int64_t>(std::vector<std::int64_t>{1, 2}, {2});
  auto step = compile([&](const Tensor& x) {
    Tensor logits = mul(x, 1.0);
    logits.set_requires_grad();
    const Tensor each = nll(log_softmax(logits), labels, {.reduction = Reduction::none}), loss = sum(each);
    return TensorList{each.detach(), gradients({&loss, 1}, std::vector<Tensor>{logits})[0]};
  });
  const TensorList got = step(from_doubles(far, {2, 3}, DType::f32));
  const auto losses = got[0].to_vector(), slopes = got[1].to_vector();
  for (std::size_t r = 0; r < 2; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < 3; ++c) sum += std::exp(near[3 * r + c]);
    EXPECT_NEAR(losses[r], std::log(sum) - near[3 * r + r + 1], 2e-7);
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_NEAR(slopes[3 * r + c], std::exp(near[3 * r + c]) / sum - (c == r + 1 ? 1 : 0), 1e-7);
  }
}

}  // namespace
}  // namespace starling::runtime
