#include "starling/train/run/weights_hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "starling/base/error.h"

namespace starling::train {
namespace {

Tensor tensor(const std::vector<double>& values, const Shape& shape, DType dtype = DType::f32) {
  return from_doubles(values, shape, dtype);
}

std::string hash(const std::vector<NamedTensor>& tensors) { return weights_hash(tensors); }

TEST(WeightsHash, DoesNotDependOnTheOrderOfTheList) {
  const NamedTensor a{"a", tensor({1, 2}, {2})};
  const NamedTensor b{"b", tensor({3}, {1})};
  EXPECT_EQ(hash({a, b}), hash({b, a}));
  EXPECT_EQ(hash({a, b}).size(), 32U);
}

TEST(WeightsHash, SeesEveryBitNameDtypeAndShape) {
  const std::string base = hash({{"a", tensor({1, 2, 3, 4}, {2, 2})}});
  EXPECT_EQ(hash({{"a", tensor({1, 2, 3, 4}, {2, 2})}}), base);
  EXPECT_NE(hash({{"a", tensor({1, 2, 3, 4.0000005}, {2, 2})}}), base);
  EXPECT_NE(hash({{"b", tensor({1, 2, 3, 4}, {2, 2})}}), base);
  EXPECT_NE(hash({{"a", tensor({1, 2, 3, 4}, {4})}}), base);
  EXPECT_NE(hash({{"a", tensor({1, 2, 3, 4}, {2, 2}, DType::i32)}}), base);
  EXPECT_NE(hash({{"a", tensor({0, 1}, {2})}}), hash({{"a", tensor({-0.0, 1}, {2})}}));
  EXPECT_NE(hash({{"a", tensor({0}, {1}, DType::i32)}}), hash({{"a", tensor({0}, {1})}}));
}

TEST(WeightsHash, DependsOnValuesNotOnTheirMemoryFormat) {
  const Tensor matrix = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor turned = view_of(matrix, {3, 2}, {1, 3}, 0);
  EXPECT_EQ(hash({{"a", turned}}), hash({{"a", tensor({1, 4, 2, 5, 3, 6}, {3, 2})}}));
}

TEST(WeightsHash, RefusesANameGivenTwice) {
  const NamedTensor a{"a", tensor({1}, {1})};
  EXPECT_THROW(hash({a, a}), Error);
  EXPECT_EQ(hash({}), hash({}));
}

}  // namespace
}  // namespace starling::train
