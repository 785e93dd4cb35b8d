#include "starling/tensor/literal.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <string>

#include "starling/ops/api/creation.h"

namespace starling {
namespace {

std::string refused(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(TensorLiteral, BracesMakeATensorOfTheirShape) {
  const Tensor matrix = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(matrix.type(), (TensorType{DType::i64, {2, 3}}));
  EXPECT_EQ(matrix.to_vector(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor({{{1, 2}}, {{3, 4}}, {{5, 6}}}).shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(tensor({{7, 8}}).shape(), (Shape{1, 2}));
  EXPECT_EQ(tensor({9}).shape(), (Shape{1}));
  EXPECT_EQ(tensor(9).shape(), Shape{});
  EXPECT_EQ(tensor({}).type(), (TensorType{DType::f32, {0}}));
  EXPECT_EQ(tensor({{}, {}}).shape(), (Shape{2, 0}));
}

TEST(TensorLiteral, TheDtypeFollowsFromHowNumbersAreWritten) {
  EXPECT_EQ(tensor({1, 2}).dtype(), DType::i64);
  EXPECT_EQ(tensor({1, 2.5}).dtype(), DType::f32);
  EXPECT_EQ(tensor({1.0F}).dtype(), DType::f32);
  EXPECT_EQ(tensor({true, false}).dtype(), DType::boolean);
  EXPECT_EQ(tensor({true, false}).to_vector(), (std::vector<double>{1, 0}));
  EXPECT_EQ(tensor({1, 2}, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(tensor({1.0, 2.0}, DType::i32).to_vector(), (std::vector<double>{1, 2}));
}

TEST(TensorLiteral, ABooleanIsTrueOrFalseAndNothingElse) {
  EXPECT_EQ(tensor({0, 1, true}, DType::boolean).to_vector(), (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(tensor({0.0, 1.0}, DType::boolean).to_vector(), (std::vector<double>{0, 1}));
  for (const double wrong : {2.5, -1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(refused([&] {
                tensor({1.0, wrong}, DType::boolean);
              }).find("expected true, false, 0 or 1"),
              std::string::npos)
        << wrong;
}

TEST(TensorLiteral, LargeWholeNumbersKeepTheirDigits) {
  const std::int64_t large = (std::int64_t{1} << 60) + 1;
  EXPECT_EQ(tensor({large, -large}).data<std::int64_t>()[0], large);
}

TEST(TensorLiteral, ContainersNestAsBracesDo) {
  const std::vector<std::vector<float>> rows{{1, 2}, {3, 4}, {5, 6}};
  EXPECT_EQ(tensor(rows).type(), (TensorType{DType::f32, {3, 2}}));
  EXPECT_EQ(tensor(rows).to_vector(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor(std::array<int, 3>{1, 2, 3}).type(), (TensorType{DType::i64, {3}}));
  EXPECT_EQ(tensor(std::vector<bool>{true, false}).dtype(), DType::boolean);
  EXPECT_EQ(tensor({std::vector<int>{1, 2}, std::vector<int>{3, 4}}).shape(), (Shape{2, 2}));
}

TEST(TensorLiteral, RowsOfDifferentLengthsAreRefused) {
  EXPECT_EQ(refused([] {
              tensor({{1, 2}, {3}});
            }),
            "[tensor] expected rows of one shape, got [2] in place 0 and [1] in place 1");
  EXPECT_EQ(refused([] {
              tensor({{1, 2}, 3});
            }),
            "[tensor] expected rows of one shape, got [2] in place 0 and [] in place 1");
}

TEST(TensorLiteral, NumbersThatTheDtypeCannotHoldAreRefused) {
  EXPECT_EQ(refused([] {
              tensor({1, 2.5}, DType::i64);
            }),
            "[tensor] expected whole numbers for i64, got 2.5; give a float dtype, or none");
  EXPECT_EQ(refused([] { tensor({300}, DType::u8); }), "[tensor] expected numbers that u8 can hold, got 300");
  EXPECT_EQ(refused([] { tensor({-1}, DType::u64); }), "[tensor] expected numbers that u64 can hold, got -1");
}

TEST(TensorLiteral, OnesAreOnes) {
  EXPECT_EQ(ones({2, 2}).type(), (TensorType{DType::f32, {2, 2}}));
  EXPECT_EQ(ones({3}, DType::i32).to_vector(), (std::vector<double>{1, 1, 1}));
}

}  // namespace
}  // namespace starling
