#include <gtest/gtest.h>

#include "cuda/cuda_testing.h"
#include "starling/kernels/eager.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/attrs/fused.h"
#include "starling/ops/def/attrs/rnn.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

Tensor random_values(const Shape& shape, std::mt19937& engine, double size = 1) {
  return drawn({.shape = shape, .low = -size, .high = size}, engine);
}

// Greatest error of an op's results on the GPU, in norms of what the reference computes.
double error_of(const char* name, const TensorList& in, const Attrs& attrs, DType dtype = DType::f32) {
  const OpDef& op = find_op(name);
  TensorList host, device;
  for (const Tensor& x : in) {
    host.push_back(is_float(x.dtype()) ? from_doubles(x.to_vector(), x.shape(), dtype) : x);
    device.push_back(to(host.back(), kGpu));
  }
  const TensorList want = [&] {
    const kernels::ReferenceScope reference;
    return apply(op, host, attrs);
  }();
  const TensorList got = apply(op, device, attrs);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, relative_error(got[i].to_vector(), want[i].to_vector()));
  return worst;
}

class CudaFastPaths : public OnGpu {};

// Sample calls are smaller than the sizes from which these kernels are taken.
TEST_F(CudaFastPaths, AnLstmsSequenceIsThatOfTheReference) {
  std::mt19937 engine(5);
  constexpr std::int64_t kSteps = 9, kBatch = 5;
  for (const std::int64_t h : {128, 100, 200, 256}) {
    for (const bool reverse : {false, true}) {
      const Tensor w = random_values({4 * h, h}, engine, 0.1);
      const Tensor lengths = from_doubles(std::vector<double>{9, 0, 4, 1, 8}, {kBatch}, DType::i64);
      TensorList forward{random_values({kSteps, kBatch, 4 * h}, engine), w, random_values({kBatch, h}, engine),
                         random_values({kBatch, h}, engine), lengths};
      EXPECT_LE(error_of("lstm_layer", forward, op::LayerAttrs{reverse}), 2e-5) << h << " " << reverse;
      TensorList backward{
          random_values({kSteps + 1, kBatch, h}, engine),      random_values({kSteps + 1, kBatch, h}, engine),
          random_values({kSteps, kBatch, 4 * h}, engine),      w,
          random_values({kSteps, kBatch, 4 * h}, engine, 0.9), random_values({kSteps + 1, kBatch, h}, engine)};
      EXPECT_LE(error_of("lstm_layer_backward", backward, op::LayerAttrs{reverse}), 2e-5) << h << " " << reverse;
      backward.push_back(lengths);
      EXPECT_LE(error_of("lstm_layer_backward", backward, op::LayerAttrs{reverse}), 2e-5) << h << " " << reverse;
    }
  }
}

// Rows that nobody, few positions and very many positions name; columns that are and are not multiples of 4.
TEST_F(CudaFastPaths, GradientsOfEmbeddingsBringCrowdedRows) {
  std::mt19937 engine(6);
  for (const std::int64_t width : {5, 132}) {
    std::vector<double> indices;
    for (int i = 0; i < 2000; ++i) indices.push_back(i % 3 == 0 ? 7 : i % 5 == 0 ? 11 : i % 97 + 20);
    const TensorList in{random_values({2000, width}, engine), from_doubles(indices, {2000}, DType::i64)};
    EXPECT_LE(error_of("embedding_backward", in, op::EmbeddingBackwardAttrs{300, 11}), 1e-5) << width;
  }
}

TEST_F(CudaFastPaths, PartsOfAConcatMayBeginAtAnyElement) {
  std::mt19937 engine(7);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TensorList in{random_values({300, 3}, engine), random_values({300, 128}, engine),
                        random_values({300, 132}, engine), random_values({300, 136}, engine)};
    EXPECT_EQ(error_of("concat", in, op::AxisAttrs{1}, dtype), 0);
  }
}

TEST_F(CudaFastPaths, ManySumsOfFewTermsHaveAThreadEach) {
  std::mt19937 engine(8);
  const TensorList in{random_values({40000, 49}, engine)};
  const op::FusedAttrs attrs{Symbol("t0=mul(a0,a0); t1=mean(t0,1); o0=squeeze(t1,1)")};
  EXPECT_LE(error_of("fused", in, attrs), 1e-5);
  EXPECT_LE(error_of("fused", in, attrs, DType::bf16), 1e-2);
}

}  // namespace
}  // namespace starling::testing
