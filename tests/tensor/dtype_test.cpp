#include "starling/tensor/dtype.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

TEST(DType, IsParsedFromItsName) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    EXPECT_EQ(is_float(dtype) + is_integer(dtype) + (dtype == DType::boolean), 1) << name(dtype);
  }
  EXPECT_EQ(parse_dtype("f8"), std::nullopt);
}

TEST(DType, OfMixedOperandsIsTheSameInEitherOrder) {
  for (int i = 0; i < kDTypeCount; ++i) {
    for (int j = 0; j < kDTypeCount; ++j) {
      const auto a = static_cast<DType>(i), b = static_cast<DType>(j);
      EXPECT_EQ(promote(a, b), promote(b, a)) << name(a) << " " << name(b);
      EXPECT_GE(size_of(promote(a, b)), std::min(size_of(a), size_of(b)));
    }
  }
}

TEST(DType, OfMixedIntegersHoldsBoth) {
  EXPECT_EQ(promote(DType::i8, DType::u8), DType::i16);
  EXPECT_EQ(promote(DType::i16, DType::u8), DType::i16);
  EXPECT_EQ(promote(DType::i32, DType::u16), DType::i32);
  EXPECT_EQ(promote(DType::i8, DType::u32), DType::i64);
  EXPECT_EQ(promote(DType::i64, DType::u64), DType::i64);
  EXPECT_EQ(promote(DType::u8, DType::u32), DType::u32);
  EXPECT_EQ(promote(DType::boolean, DType::u8), DType::u8);
  EXPECT_EQ(promote(DType::i64, DType::f16), DType::f16);
  EXPECT_EQ(promote(DType::f16, DType::bf16), DType::f32);
}

}  // namespace
}  // namespace starling
