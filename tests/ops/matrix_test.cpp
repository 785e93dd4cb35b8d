#include <gtest/gtest.h>

#include "ops/op_checks.h"
#include "starling/ops/einsum.h"
#include "starling/ops/matmul.h"
#include "starling/tensor/tensor.h"

namespace starling::testing {
namespace {

Tensor counted(const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) - 3;
  return from_doubles(values, shape, DType::f64);
}

std::string error_of(const char* equation, std::initializer_list<Tensor> xs) {
  try {
    einsum(equation, xs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Matmul, TakesVectorsOnEitherSide) {
  const Tensor v = counted({4}), m = counted({4, 3}), batch = counted({2, 3, 4});
  EXPECT_EQ(matmul(v, v).to_vector(), (std::vector<double>{14}));
  EXPECT_EQ(matmul(v, m).shape(), (Shape{3}));
  EXPECT_EQ(matmul(v, m).to_vector(), einsum("i,ij->j", {v, m}).to_vector());
  EXPECT_EQ(matmul(batch, v).shape(), (Shape{2, 3}));
  EXPECT_EQ(matmul(batch, v).to_vector(), einsum("bij,j->bi", {batch, v}).to_vector());
  EXPECT_THROW(matmul(v, m, {.trans_a = true}), Error);
}

TEST(Einsum, ErrorsSayWhatIsWrong) {
  const Tensor a = counted({2, 3}), b = counted({4, 2});
  EXPECT_NE(error_of("ij,jk", {a}).find("expected 2 operands"), std::string::npos);
  EXPECT_NE(error_of("ij,jk", {a, b}).find("one size for 'j'"), std::string::npos);
  EXPECT_NE(error_of("ijk", {a}).find("rank 3"), std::string::npos);
  EXPECT_NE(error_of("ij->ik", {a}).find("letters that operands have"), std::string::npos);
  EXPECT_NE(error_of("i1", {a}).find("got '1'"), std::string::npos);
  EXPECT_NE(error_of("......", {a}).find("once a term"), std::string::npos);
  EXPECT_NE(error_of("i.j", {a}).find("got '.'"), std::string::npos);
}

TEST(Einsum, ManyDimensionsInBetweenFallBackToTheReference) {
  const Tensor one = counted({2, 1, 2, 1, 2}), other = counted({2, 2, 2, 2, 2}), last = counted({2, 2, 2, 2});
  const Tensor y = einsum("abcde,fghij,fghi->aj", {one, other, last});
  const Tensor want = einsum("a,j->aj", {einsum("abcde->a", {one}), einsum("fghij,fghi->j", {other, last})});
  EXPECT_LT(difference(y, want), 1e-12);
}

}  // namespace
}  // namespace starling::testing
