#include <gtest/gtest.h>

#include "cuda/compiled_gradients.h"

namespace starling::testing {
namespace {

class CudaAttention : public OnGpu {};

struct Sizes {
  std::int64_t queries, keys, d;
  bool causal;
};

// Attention on tensor cores, by our own kernels or cuDNN's: sizes that fill no tile, with and without the causal mask,
// other numbers of keys, heads that only one of them takes.
// Label: full
TEST_F(CudaAttention, InSixteenBitsAgreesWithTheCpu) {
  for (const auto& s :
       {Sizes{200, 200, 64, true}, Sizes{130, 75, 64, false}, Sizes{33, 257, 32, true}, Sizes{1, 9, 64, false},
        Sizes{512, 512, 32, true}, Sizes{96, 160, 128, true}, Sizes{77, 130, 40, false}, Sizes{129, 257, 96, true},
        Sizes{70, 50, 256, true}, Sizes{50, 70, 36, false}}) {
    manual_seed(5);
    const std::vector<Tensor> in{normal({2, 3, s.queries, s.d}), normal({2, 3, s.keys, s.d}),
                                 normal({2, 3, s.keys, s.d}), normal({2, 3, s.queries, s.d})};
    const auto f = [&](const std::vector<Tensor>& p) {
      return sum(mul(scaled_dot_product_attention(p[0], p[1], p[2], {.causal = s.causal}), p[3]));
    };
    const Made want = gradients_on(kCpu, in, Precision::f32, f);
    for (const Precision precision : {Precision::bf16, Precision::f16}) {
      SCOPED_TRACE(::testing::Message() << s.queries << " queries, " << s.keys << " keys, heads of " << s.d << " in "
                                        << to_string(precision));
      Made got = gradients_on(kGpu, in, precision, f);
      got[0] = want[0];  // a sum of thousands of terms around 0
      expect_alike(got, want, 2e-2);
    }
  }
}

// Operands that begin 8 bytes after a multiple of 16, which libraries do not take.
TEST_F(CudaAttention, OperandsMayBeginAnywhere) {
  for (const std::int64_t d : {64, 72}) {
    SCOPED_TRACE(::testing::Message() << "heads of " << d);
    manual_seed(6);
    std::vector<Tensor> in, halves;
    for (int i = 0; i < 3; ++i) in.push_back(cast(normal({2, 3, 128, d + 8}), DType::bf16));
    for (const Tensor& x : in) halves.push_back(cast(x, DType::f32));
    const auto f = [&](const std::vector<Tensor>& p) {
      const auto part = [&](const Tensor& x) { return narrow(x, 3, 4, d); };
      const Tensor y = scaled_dot_product_attention(part(p[0]), part(p[1]), part(p[2]), {.causal = true});
      return mean(cast(mul(y, y), DType::f32));
    };
    expect_alike(gradients_on(kGpu, in, Precision::f32, f), gradients_on(kCpu, halves, Precision::f32, f), 2e-2);
  }
}

// Queries, keys and values of one product, whose gradients are written into that of the product.
TEST_F(CudaAttention, GradientsOfHeadsLieInThatOfTheirProduct) {
  constexpr std::int64_t kBatch = 2, kLength = 128, kHeads = 3, kWidth = 64;
  manual_seed(7);
  const std::vector<Tensor> in{normal({kBatch, kLength, 96}), normal({3 * kHeads * kWidth, 96}, {.stddev = 0.2}),
                               normal({96, kHeads * kWidth}, {.stddev = 0.1})};
  const auto f = [&](const std::vector<Tensor>& p) {
    const std::vector<Tensor> parts = split(linear(p[0], p[1]), 3, 2);
    const auto heads = [&](const Tensor& x) {
      return transpose(reshape(x, {kBatch, kLength, kHeads, kWidth}), {0, 2, 1, 3});
    };
    const Tensor y = scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {.causal = true});
    const Tensor joined = reshape(transpose(y, {0, 2, 1, 3}), {kBatch, kLength, kHeads * kWidth});
    const Tensor out = linear(joined, p[2]);
    return mean(mul(out, out));
  };
  const Made want = gradients_on(kCpu, in, Precision::f32, f);
  for (const Precision precision : {Precision::bf16, Precision::f16}) {
    std::string program;
    expect_alike(gradients_on(kGpu, in, precision, f, &program), want, 2e-2);
    EXPECT_EQ(program.find("compute concat"), std::string::npos) << program;
  }
}

}  // namespace
}  // namespace starling::testing
