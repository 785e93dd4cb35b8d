#include <gtest/gtest.h>

#include "runtime/step_testing.h"
#include "starling/autograd/autograd.h"
#include "starling/ops/api/attention.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/rnn.h"
#include "starling/ops/api/rotary.h"
#include "starling/runtime/compile.h"

namespace starling::runtime {
namespace {

using testing::relative_l2;

Tensor parameter(const Shape& shape, const char* name) {
  Tensor t = uniform(shape, {.low = -0.5, .high = 0.5});
  t.set_name(name);
  return t.set_requires_grad();
}

// Loss and gradients of a function of one input, eagerly and compiled.
template <class Loss>
void expect_compiled_as_eager(const Tensor& x, const std::vector<Tensor>& parameters, Loss loss) {
  const auto values = [&](const Tensor& input) {
    const Tensor y = loss(input);
    TensorList results = gradients({&y, 1}, parameters);
    results.push_back(y);
    return results;
  };
  const TensorList want = values(x);
  auto step = compile(values);
  for (int call = 0; call < 2; ++call) {
    const TensorList got = step(x);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LE(relative_l2(got[i], want[i]), 1e-5) << i;
  }
}

TEST(CompiledSequence, RecurrentNetworksWithLengthsAreAsEager) {
  const Tensor x = uniform({6, 3, 5});
  const std::int64_t lengths[] = {6, 2, 4};
  const Tensor length = from_host<std::int64_t>(lengths, {3});
  const RnnWeights w[] = {{parameter({16, 5}, "a"), parameter({16, 4}, "b"), parameter({16}, "c"), {}},
                          {parameter({16, 5}, "d"), parameter({16, 4}, "e"), {}, {}}};
  expect_compiled_as_eager(x, {w[0].w_ih, w[0].w_hh, w[0].b_ih, w[1].w_hh}, [&](const Tensor& input) {
    const RnnResult r = lstm(input, w, {.bidirectional = true, .lengths = length});
    return add(sum(mul(r.y, r.y)), sum(r.c));
  });
}

TEST(CompiledSequence, AttentionWithRotaryPositionsIsAsEager) {
  const Tensor x = uniform({2, 9, 8});
  MultiHeadWeights w;
  w.w_q = parameter({8, 8}, "q"), w.w_k = parameter({8, 8}, "k");
  w.w_v = parameter({8, 8}, "v"), w.w_out = parameter({8, 8}, "out");
  expect_compiled_as_eager(x, {w.w_q, w.w_k, w.w_v, w.w_out}, [&](const Tensor& input) {
    const Tensor turned = rotary(input, {.offset = 3});
    return sum(mul(multi_head_attention(turned, turned, input, w, 2, {.causal = true}), input));
  });
}

}  // namespace
}  // namespace starling::runtime
