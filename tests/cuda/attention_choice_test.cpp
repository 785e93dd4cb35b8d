#include <gtest/gtest.h>

#include "starling/kernels/cuda/library_attention.h"

namespace starling::testing {
namespace {

using cuda::AttentionPass;
using device::Attention;
constexpr std::size_t kVersion = 91400;

// Heads of one product of queries, keys and values: rows [batch, length, 3, heads, d].
Attention packed(int length, int d) {
  constexpr int kBatch = 2, kHeads = 3;
  Attention a{};
  a.batch = kBatch * kHeads, a.queries = a.keys = length, a.d = a.dv = d, a.scale = 1, a.rank = 2;
  a.sizes[0] = kBatch, a.sizes[1] = kHeads;
  for (Attention::Rows* rows : {&a.q, &a.k, &a.v, &a.y, &a.dy, &a.dq, &a.dk, &a.dv_rows}) {
    rows->row = 3ll * kHeads * d;
    rows->leading[0] = length * rows->row, rows->leading[1] = d;
  }
  return a;
}

bool both(const Attention& a, std::size_t version = kVersion) {
  const bool forward = cuda::cudnn_takes(AttentionPass::forward, a, version);
  EXPECT_EQ(forward, cuda::cudnn_takes(AttentionPass::backward, a, version));
  return forward;
}

TEST(CudnnAttention, TakesHeadsOfAnyProduct) {
  for (const int d : {32, 40, 64, 128, 256}) EXPECT_TRUE(both(packed(128, d))) << d;
  for (const int d : {36, 4, 264}) EXPECT_FALSE(both(packed(128, d))) << d;
  EXPECT_FALSE(both(packed(1, 64)));
}

TEST(CudnnAttention, TakesOnlyRowsAtMultiplesOfSixteenBytes) {
  Attention a = packed(128, 64);
  a.k.row += 4;
  EXPECT_FALSE(both(a));
  a = packed(128, 64);
  a.v.leading[1] = 0;  // one head for all
  EXPECT_FALSE(both(a));
  a = packed(128, 64);
  a.dq.leading[0] += 1;
  EXPECT_TRUE(cuda::cudnn_takes(AttentionPass::forward, a, kVersion));
  EXPECT_FALSE(cuda::cudnn_takes(AttentionPass::backward, a, kVersion));
  a.sizes[0] = 1, a.batch = 3;  // a stride that nothing steps by
  EXPECT_TRUE(cuda::cudnn_takes(AttentionPass::backward, a, kVersion));
}

TEST(CudnnAttention, LeavesMasksAndVersionsThatErrToOtherKernels) {
  Attention a = packed(128, 64);
  a.mask_kind = Attention::boolean;
  EXPECT_FALSE(both(a));
  EXPECT_FALSE(both(packed(128, 64), 91001));
  a = packed(100, 64);
  EXPECT_TRUE(cuda::cudnn_takes(AttentionPass::forward, a, kVersion));
  EXPECT_FALSE(cuda::cudnn_takes(AttentionPass::backward, a, kVersion));
  EXPECT_TRUE(both(a, 91900));
}

}  // namespace
}  // namespace starling::testing
