#include <gtest/gtest.h>

#include "cuda/cuda_testing.h"
#include "starling/ops/api/binary.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/out_of_memory.h"

namespace starling::testing {
namespace {

class CudaMemory : public OnGpu {};

// More than there is, beside tensors that are held and blocks that were freed.
TEST_F(CudaMemory, ARequestForTooMuchNamesItsHoldersAndLeavesTheProcessUsable) {
  Allocator& own = allocator(kGpu);
  const Tensor x = zeros({1 << 20}, DType::f32, kGpu);
  const Tensor sum = add(x, x);
  { const Tensor freed = empty({64 << 20}, DType::f32, kGpu); }
  EXPECT_GT(own.stats().cached_bytes, 0);
  try {
    const Tensor much = empty({std::int64_t{1} << 40}, DType::f32, kGpu);
    FAIL() << "expected memory to run out";
  } catch (const OutOfMemory& error) {
    const std::string told = error.what();
    EXPECT_NE(told.find("[allocator] expected 4398046511104 bytes on cuda:0, got none"), std::string::npos) << told;
    EXPECT_NE(told.find("4.0 MiB by add (1)"), std::string::npos) << told;
  }
  EXPECT_EQ(own.stats().cached_bytes, 0) << "freed blocks were to be given back";
  EXPECT_EQ(add(sum, x).to_vector(), std::vector<double>(1 << 20, 0));
}

// A block that would fit once the freed ones are given back is found at the second try.
TEST_F(CudaMemory, FreedBlocksMakeRoomForAnotherSize) {
  Allocator& own = allocator(kGpu);
  own.release_cached();
  const std::int64_t gib = std::int64_t{1} << 28;  // f32 elements
  std::vector<Tensor> all;
  try {
    for (;;) all.push_back(empty({gib}, DType::f32, kGpu));
  } catch (const OutOfMemory&) {
  }
  ASSERT_GT(all.size(), 8u);
  const auto count = static_cast<std::int64_t>(all.size());
  all.clear();
  EXPECT_GE(own.stats().cached_bytes, count << 30);
  EXPECT_NO_THROW(all.push_back(empty({gib * (count - 2)}, DType::f32, kGpu)));
  all.clear();
  own.release_cached();
}

}  // namespace
}  // namespace starling::testing
