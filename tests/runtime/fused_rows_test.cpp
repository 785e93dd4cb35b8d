// Sums over rows of different lengths meet in one vector: they cannot run as one pass over memory.
#include <gtest/gtest.h>

#include "runtime/step_testing.h"

namespace starling::runtime {
namespace {

TEST(FusedRows, SumsOfRowsOfTwoLengthsAreAddedAsEager) {
  manual_seed(1);
  const Tensor wide = normal({8, 30}, {.dtype = DType::f64}), narrow_one = normal({8, 4}, {.dtype = DType::f64});
  const auto f = [](const Tensor& a, const Tensor& b) {
    return mean(sum(square(a), {.axes = {1}}) + sum(exp(b), {.axes = {1}}) * 0.5);
  };
  auto compiled = compile(f);
  EXPECT_NEAR(compiled(wide, narrow_one).item(), f(wide, narrow_one).item(), 1e-12);
}

TEST(FusedRows, RowsOfOneLengthAreStillAdded) {
  manual_seed(1);
  const Tensor a = normal({8, 30}, {.dtype = DType::f64}), b = normal({8, 30}, {.dtype = DType::f64});
  const auto f = [](const Tensor& x, const Tensor& y) {
    return sum(square(x), {.axes = {1}}) + sum(exp(y), {.axes = {1}}) * 0.5;
  };
  auto compiled = compile(f);
  EXPECT_LE(testing::relative_l2(compiled(a, b), f(a, b)), 1e-14);
}

}  // namespace
}  // namespace starling::runtime
