#include "starling/ops/api/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/op_checks.h"
#include "starling/autograd/autograd.h"
#include "starling/base/parallel.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/softmax.h"

namespace starling::testing {
namespace {

Tensor draw_one(const Shape& shape, unsigned seed, DType dtype = DType::f32) {
  return draw({{{.shape = shape, .low = -1, .high = 1}}, op::NoAttrs{}}, dtype, seed).in[0];
}

struct Case {
  const char* name;
  Shape q, k, v;
  AttentionOptions options;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class LargeAttention : public ::testing::TestWithParam<Case> {};

// Sizes beyond those of the sample calls: several blocks of queries and keys, and threads.
TEST_P(LargeAttention, AgreesWithTheReference) {
  const Case& c = GetParam();
  const Tensor in[] = {draw_one(c.q, 1).set_requires_grad(), draw_one(c.k, 2).set_requires_grad(),
                       draw_one(c.v, 3).set_requires_grad()};
  const auto values = [&] {
    const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], c.options);
    const Tensor dy = draw_one(y.shape(), 4);
    TensorList results = gradients({&y, 1}, in, {&dy, 1});
    results.push_back(y);
    return results;
  };
  const TensorList want = [&] {
    const kernels::ReferenceScope reference;
    return values();
  }();
  for (int threads : {1, 3}) {
    const ThreadScope scope(threads);
    const TensorList got = values();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(difference(got[i], want[i]), 2e-5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LargeAttention,
    ::testing::Values(
        Case{"plain", {2, 150, 20}, {2, 300, 20}, {2, 300, 33}, {}},
        Case{"causal", {2, 300, 32}, {2, 300, 32}, {2, 300, 32}, {.causal = true}},
        Case{"causal_wide", {1, 70, 80}, {1, 530, 80}, {1, 530, 80}, {.causal = true}},
        Case{"causal_tall", {1, 400, 16}, {1, 270, 16}, {1, 270, 8}, {.causal = true}},
        Case{"added", {2, 70, 16}, {2, 280, 16}, {2, 280, 16}, {.mask = draw_one({70, 280}, 5)}},
        Case{"column", {2, 70, 16}, {2, 280, 16}, {2, 280, 16}, {.mask = draw_one({2, 70, 1}, 6), .causal = true}},
        Case{"rows",
             {3, 70, 16},
             {3, 280, 16},
             {3, 280, 16},
             {.mask = draw({{{.shape = {3, 1, 280}, .low = 0, .high = 2, .dtype = DType::boolean}}, op::NoAttrs{}},
                           DType::f32)
                          .in[0]}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Attention, OfQueriesThatSeeNoKeyIsZeroAndSoAreItsGradients) {
  const Tensor in[] = {draw_one({2, 3}, 1).set_requires_grad(), draw_one({4, 3}, 2).set_requires_grad(),
                       draw_one({4, 3}, 3).set_requires_grad()};
  const double seen[] = {0, 0, 0, 0, 1, 0, 1, 1};
  const Tensor mask = from_doubles(seen, {2, 4}, DType::boolean);
  const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.mask = mask});
  const Tensor total = sum(y);
  const TensorList grads = gradients({&total, 1}, in);
  const std::vector<double> values = y.to_vector(), dq = grads[0].to_vector();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(values[i], 0);
    EXPECT_EQ(dq[i], 0);
    EXPECT_NE(values[3 + i], 0);
  }
  for (double g : grads[1].to_vector()) EXPECT_TRUE(std::isfinite(g));
}

TEST(Attention, OfQueriesThatAreNanIsNanWhereTheySeeAKey) {
  const auto verify = [](std::int64_t keys, bool causal) {
    const auto columns = static_cast<std::size_t>(keys);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double queries[] = {nan, nan, nan, nan, 1, 1};
    const Tensor q = from_doubles(queries, {3, 2}), k = draw_one({keys, 2}, 2), v = draw_one({keys, 2}, 3);
    std::vector<double> seen(3 * columns, 1);
    std::fill_n(seen.begin() + static_cast<std::ptrdiff_t>(columns), columns, 0.0);
    std::fill_n(seen.begin() + 1, columns - 1, 0.0);  // the first sees one key, the second none
    const Tensor mask = from_doubles(seen, {3, keys}, DType::boolean);
    const auto y = scaled_dot_product_attention(q, k, v, {.mask = mask, .causal = causal}).to_vector();
    const auto free = scaled_dot_product_attention(q, k, v, {.causal = causal}).to_vector();
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(std::isnan(y[i])) << keys << " keys";
      EXPECT_EQ(y[2 + i], 0) << keys << " keys";
      EXPECT_TRUE(std::isfinite(y[4 + i])) << keys << " keys";
      EXPECT_TRUE(std::isnan(free[i]) && std::isnan(free[2 + i]) && std::isfinite(free[4 + i])) << keys << " keys";
    }
  };
  const auto verify_all = [&] {
    for (const std::int64_t keys : {1, 4, 16, 37, 600}) verify(keys, false), verify(keys, true);
  };
  verify_all();
  const kernels::ReferenceScope reference;
  verify_all();
}

TEST(Attention, WithDropoutKeepsTheMeanAndIsAFunctionOfTheKey) {
  manual_seed(3);
  const Tensor q = draw_one({1, 40, 8}, 1), k = draw_one({1, 50, 8}, 2);
  const Tensor ones = from_doubles(std::vector<double>(50), {1, 50, 1});
  const Tensor v = add(ones, 1.0);
  const Tensor y = scaled_dot_product_attention(q, k, v, {.dropout = 0.5});
  double mean = 0;
  for (double x : y.to_vector()) mean += x / 40;
  EXPECT_NEAR(mean, 1, 0.1);
  EXPECT_NE(y.to_vector()[0], 1);
  manual_seed(3);
  EXPECT_EQ(difference(scaled_dot_product_attention(q, k, v, {.dropout = 0.5}), y), 0);
}

// Every head by itself, from slices of the projections.
TEST(Attention, OfManyHeadsIsThatOfEachHeadJoined) {
  constexpr std::int64_t kHeads = 3, kSize = 4;
  const Tensor x = draw_one({2, 5, 6}, 1, DType::f64);
  MultiHeadWeights w;
  w.w_q = draw_one({12, 6}, 2, DType::f64), w.w_k = draw_one({12, 6}, 3, DType::f64);
  w.w_v = draw_one({12, 6}, 4, DType::f64), w.w_out = draw_one({7, 12}, 5, DType::f64);
  w.b_q = draw_one({12}, 6, DType::f64), w.b_out = draw_one({7}, 7, DType::f64);
  const Tensor q = linear(x, w.w_q, w.b_q), k = linear(x, w.w_k), v = linear(x, w.w_v);
  std::vector<Tensor> heads;
  for (std::int64_t i = 0; i < kHeads; ++i) {
    const auto head = [&](const Tensor& t) {
      return slice(t, {.axis = 2, .begin = i * kSize, .end = (i + 1) * kSize});
    };
    const Tensor scores = mul(matmul(head(q), head(k), {.trans_b = true}), 0.5);
    heads.push_back(matmul(softmax(scores), head(v)));
  }
  const Tensor want = linear(concat(heads, 2), w.w_out, w.b_out);
  EXPECT_LT(difference(multi_head_attention(x, x, x, w, kHeads), want), 1e-12);
  EXPECT_THROW(multi_head_attention(x, x, x, w, 5), Error);
}

}  // namespace
}  // namespace starling::testing
