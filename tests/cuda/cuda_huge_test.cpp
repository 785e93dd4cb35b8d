#include <gtest/gtest.h>

#include <numeric>

#include "cuda/cuda_testing.h"
#include "starling/kernels/eager.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/reduce.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/allocator.h"

namespace starling::testing {
namespace {

// Tensors of more than 2^31 elements, whose places an int does not hold: what lies behind that is looked at.
class CudaHuge : public OnGpu {
 protected:
  static constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 1000;
  static constexpr std::int64_t kFew = 8;

  void TearDown() override { allocator(kGpu).release_cached(); }

  // Values at the end of memory that is 0 else.
  static Tensor ending_in(const std::vector<double>& last, DType dtype) {
    const Tensor x = zeros({kCount}, dtype, kGpu);
    copy_into(end_of(x), to(from_doubles(last, {kFew}, dtype), kGpu));
    return x;
  }
  static Tensor end_of(const Tensor& x) { return view_of(x, {kFew}, {1}, x.numel() - kFew); }
  static std::vector<double> last() {
    std::vector<double> values(kFew);
    std::iota(values.begin(), values.end(), 1.0);
    return values;
  }
};

// Label: full
TEST_F(CudaHuge, ElementwiseOpsReachTheLastElement) {
  const Tensor x = ending_in(last(), DType::u8);
  const Tensor y = apply1(find_op("add"), std::vector<Tensor>{x, x});
  EXPECT_EQ(end_of(y).to_vector(), (std::vector<double>{2, 4, 6, 8, 10, 12, 14, 16}));
  EXPECT_EQ(view_of(y, {4}, {1}, 0).to_vector(), std::vector<double>(4, 0));
  const Tensor wide = apply1(find_op("exp"), std::vector<Tensor>{ending_in(std::vector<double>(kFew, 0), DType::f32)});
  EXPECT_EQ(end_of(wide).to_vector(), std::vector<double>(kFew, 1));
}

// Label: full
TEST_F(CudaHuge, ReductionsSeeTheLastElement) {
  const Tensor x = ending_in(last(), DType::f32);
  EXPECT_EQ(to(apply1(find_op("sum"), std::vector<Tensor>{x}, op::ReduceAttrs{{}, false}), kCpu).item(), 36);
  EXPECT_EQ(to(apply1(find_op("max"), std::vector<Tensor>{x}, op::ReduceAttrs{{}, false}), kCpu).item(), 8);
  const Tensor columns = view_of(x, {kCount / kFew, kFew}, {kFew, 1}, 0);
  EXPECT_EQ(apply1(find_op("sum"), std::vector<Tensor>{columns}, op::ReduceAttrs{{0}, false}).to_vector(), last());
  EXPECT_EQ(
      end_of(apply1(find_op("max"), std::vector<Tensor>{columns}, op::ReduceAttrs{{1}, false})).to_vector().back(), 8);
}

// Label: full
TEST_F(CudaHuge, CopiesOfTransposedMemoryKeepEveryElement) {
  const Tensor x = ending_in(last(), DType::u8);
  const Tensor turned = kernels::densify(view_of(x, {kFew, kCount / kFew}, {1, kFew}, 0));
  for (std::int64_t row = 0; row < kFew; ++row)
    EXPECT_EQ(view_of(turned, {1}, {1}, (row + 1) * (kCount / kFew) - 1).to_vector()[0], row + 1.0);
}

// Label: full
TEST_F(CudaHuge, IndicesReachTheLastElement) {
  const Tensor x = ending_in(last(), DType::u8);
  const std::vector<double> places{kCount - 1.0, 0, kCount - 8.0, 2147483648.0 + 994};
  const Tensor index = to(from_doubles(places, {4}, DType::i64), kGpu);
  for (const char* op : {"index_select", "gather"}) {
    const Tensor y = apply1(find_op(op), std::vector<Tensor>{x, index}, op::AxisAttrs{0});
    EXPECT_EQ(y.to_vector(), (std::vector<double>{8, 0, 1, 3})) << op;
  }
}

}  // namespace
}  // namespace starling::testing
