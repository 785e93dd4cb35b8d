#include <gtest/gtest.h>

#include "cuda/cuda_testing.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/attention.h"
#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/attrs/fused.h"
#include "starling/ops/def/attrs/normalize.h"
#include "starling/ops/def/attrs/reduce.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

// Calls of sizes that kernels cut into pieces, which the sample calls of ops do not have, against the CPU.
class CudaLarge : public OnGpu {
 protected:
  Tensor drawn_floats(const Shape& shape, double low = -1, double high = 1) {
    return drawn({.shape = shape, .low = low, .high = high}, engine_);
  }
  Tensor drawn_indices(const Shape& shape, double below) {
    return drawn({.shape = shape, .low = 0, .high = below, .dtype = DType::i64}, engine_);
  }

  static void agree(const char* name, const std::vector<Tensor>& in, const Attrs& attrs, double tolerance = 3e-5) {
    const OpDef& op = find_op(name);
    std::vector<Tensor> moved;
    for (const auto& tensor : in) moved.push_back(to(tensor, kGpu));
    const TensorList want = apply(op, in, attrs), got = apply(op, moved, attrs);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(relative_error(got[i].to_vector(), want[i].to_vector()), tolerance) << name << ", output " << i;
  }

  std::mt19937 engine_{5};
};

TEST_F(CudaLarge, SumsByChannelRowAndColumn) {
  const Tensor x = drawn_floats({32, 12, 40, 40}, 0, 1);
  for (const Shape& axes : {Shape{0, 2, 3}, Shape{2, 3}, Shape{0}, Shape{1}, Shape{0, 2}, Shape{}}) {
    for (const char* op : {"sum", "mean", "max"}) agree(op, {x}, op::ReduceAttrs{axes, false});
  }
  agree("sum", {drawn_floats({4096, 100}, 0, 1)}, op::ReduceAttrs{{0}, false});
  agree("prod", {drawn_floats({3, 20000}, 0.9999, 1.0001)}, op::ReduceAttrs{{1}, false}, 1e-3);
}

TEST_F(CudaLarge, ChainsThatReduce) {
  const Tensor a = drawn_floats({16, 6, 60, 60}), b = drawn_floats({16, 6, 60, 60});
  for (const char* program : {"t0=relu_backward(a0,a1); t1=sum(t0,0,2,3); o0=t0; o1=squeeze(t1,0,2,3)",
                              "t0=square(a0); t1=mean(t0,0,1,2,3); t2=add(t1,a1); o0=t2; o1=t1",
                              "t0=mul(a0,a1); t1=max(t0,0,2,3); t2=min(t0,0,2,3); o0=t1; o1=t2"})
    agree("fused", {a, b}, op::FusedAttrs{Symbol(program)});
}

TEST_F(CudaLarge, NormalisationInPieces) {
  for (const Shape& shape : {Shape{16, 5, 50, 52}, Shape{20, 3, 41, 43}, Shape{3, 300, 7, 7}}) {
    const Shape channels{shape[1]};
    const Tensor x = drawn_floats(shape, -1, 3), dy = drawn_floats(shape), weight = drawn_floats(channels, 0.5, 1.5);
    const Tensor bias = drawn_floats(channels), mean = drawn_floats(channels, 0.9, 1.1);
    const Tensor var = drawn_floats(channels, 1, 1.5), y = drawn_floats(shape);
    const op::EpsAttrs eps{};
    agree("batch_norm_train", {x, weight, bias}, eps);
    agree("batch_norm_relu", {x, weight, bias, dy}, eps);
    agree("batch_norm_train_backward", {dy, x, mean, var, weight}, eps, 1e-3);
    agree("batch_norm_relu_backward", {dy, y, x, mean, var, weight}, eps, 1e-3);
  }
  for (const std::int64_t width : {768, 1001, 20000}) {
    const op::LayerNormAttrs rows{};
    const Tensor x = drawn_floats({300, width}), w = drawn_floats({width}, 0.5, 1.5);
    agree("layer_norm", {x, w, drawn_floats({width})}, rows);
    agree("layer_norm_backward", {drawn_floats({300, width}), x, drawn_floats({300}), drawn_floats({300}, 0.5, 1), w},
          rows, 1e-3);
  }
}

TEST_F(CudaLarge, AttentionOverManyTiles) {
  for (const bool causal : {false, true}) {
    const op::AttentionAttrs attrs{.causal = causal};
    const Tensor q = drawn_floats({2, 3, 130, 72}), k = drawn_floats({2, 3, 145, 72}),
                 v = drawn_floats({2, 3, 145, 40});
    agree("scaled_dot_product_attention", {q, k, v}, attrs);
    const TensorList y = apply(find_op("scaled_dot_product_attention"), std::vector<Tensor>{q, k, v}, attrs);
    agree("scaled_dot_product_attention_backward",
          {drawn_floats({2, 3, 130, 40}), drawn_floats({2, 3, 130}), q, k, v, y[0], y[1]},
          op::AttentionBackwardAttrs{.causal = causal}, 1e-4);
  }
}

TEST_F(CudaLarge, SumsOfManyRowsByIndex) {
  agree("embedding_backward", {drawn_floats({5000, 300}), drawn_indices({5000}, 70)},
        op::EmbeddingBackwardAttrs{.rows = 70});
}

}  // namespace
}  // namespace starling::testing
