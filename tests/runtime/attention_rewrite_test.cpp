#include <gtest/gtest.h>

#include <limits>

#include "runtime/step_testing.h"

namespace starling::runtime {
namespace {

// Attention as people write it by hand, in a layer with projections.
struct HandWritten {
  std::int64_t heads = 2;
  Tensor w_q, w_k, w_v, w_o;
  enum class Mask : std::uint8_t { none, causal, filled, added } mask = Mask::none;

  explicit HandWritten(Mask kind) : mask(kind) {
    manual_seed(3);
    const auto weight = [](const char* name) {
      Tensor w = mul(normal({16, 16}), 0.25);
      w.set_name(name);
      w.set_requires_grad();
      return w;
    };
    w_q = weight("q");
    w_k = weight("k");
    w_v = weight("v");
    w_o = weight("o");
  }
  std::vector<Tensor> parameters() const { return {w_q, w_k, w_v, w_o}; }

  Tensor heads_of(const Tensor& x, const Tensor& w) const {
    const Shape& s = x.shape();
    return transpose(reshape(linear(x, w), {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
  }

  Tensor masked(const Tensor& s) const {
    const std::int64_t t = s.shape().back();
    const Tensor seen = tril(full({t, t}, 1, DType::boolean));
    if (mask == Mask::causal) return where(seen, s, scalar(-std::numeric_limits<double>::infinity()));
    if (mask == Mask::filled) return masked_fill(s, logical_not(seen), -1e30);
    if (mask == Mask::added) return add(s, mul(cast(arange(0, static_cast<double>(t)), DType::f32), -0.1));
    return s;
  }

  Tensor operator()(const Tensor& x) const {
    const Tensor q = heads_of(x, w_q), k = heads_of(x, w_k), v = heads_of(x, w_v);
    const double depth = static_cast<double>(q.shape().back());
    const Tensor s = masked(div(matmul(q, transpose(k, {0, 1, 3, 2})), std::sqrt(depth)));
    const Tensor y = matmul(dropout(softmax(s), 0), v);
    return linear(reshape(transpose(y, {0, 2, 1, 3}), x.shape()), w_o);
  }
};

class AttentionRewrite : public ::testing::TestWithParam<HandWritten::Mask> {};

TEST_P(AttentionRewrite, LeavesNoScoresInATrainingStepAndEqualsEager) {
  constexpr std::int64_t kTokens = 37;
  const HandWritten layer(GetParam());
  const Tensor x = normal({2, kTokens, 16});
  const auto step = [&](const Tensor& input) {
    const Tensor loss = mean(square(layer(input)));
    const auto parameters = layer.parameters();
    TensorList all = gradients({&loss, 1}, parameters);
    all.push_back(loss.detach());
    return all;
  };
  const TensorList eager = step(x);
  auto compiled = compile(step);
  const TensorList got = compiled(x);
  ASSERT_EQ(got.size(), eager.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(testing::relative_l2(got[i], eager[i]), 1e-5) << i;
  int attentions = 0;
  for (const auto& node : compiled.graph().nodes()) attentions += node.op->name.starts_with("scaled_dot_product");
  EXPECT_EQ(attentions, 2) << compiled.graph();
  for (const auto& value : compiled.graph().values()) {
    const Shape& shape = value.type.shape;
    const int rank = shape.rank();
    EXPECT_FALSE(rank >= 2 && shape[rank - 1] == kTokens && shape[rank - 2] == kTokens) << compiled.graph();
  }
}

INSTANTIATE_TEST_SUITE_P(Masks, AttentionRewrite,
                         ::testing::Values(HandWritten::Mask::none, HandWritten::Mask::causal,
                                           HandWritten::Mask::filled, HandWritten::Mask::added));

TEST(AttentionRewriteOff, KeepsTheScores) {
  const HandWritten layer(HandWritten::Mask::causal);
  const Tensor x = normal({2, 5, 16});
  auto compiled = compile([&](const Tensor& input) { return layer(input); }, {.disable = {"attention"}});
  compiled(x);
  for (const auto& node : compiled.graph().nodes()) EXPECT_FALSE(node.op->name.starts_with("scaled_dot_product"));
}

}  // namespace
}  // namespace starling::runtime
