#include <gtest/gtest.h>

#include "ops/op_checks.h"
#include "starling/base/error.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/einsum.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
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

TEST(Linear, TakesActivationsThatHaveAttributes) {
  const Tensor x = counted({2, 3}), w = counted({4, 3}), b = counted({4});
  const Tensor want = leaky_relu(linear(x, w, b));
  EXPECT_EQ(linear(x, w, b, {.activation = Symbol("leaky_relu")}).to_vector(), want.to_vector());
  EXPECT_EQ(linear(x, w, b, {.activation = Symbol("elu")}).to_vector(), elu(linear(x, w, b)).to_vector());
}

TEST(Linear, RefusesActivationsThatAreNoElementwiseOpOfOneOperand) {
  const Tensor x = counted({2, 3}), w = counted({4, 3});
  for (const char* name : {"add", "softmax", "reshape", "no_such_op"}) {
    try {
      linear(x, w, {}, {.activation = Symbol(name)});
      FAIL() << name << " was taken as an activation";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("[linear] expected", 0), 0u) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(Einsum, ReadsBroadcastViewsWithinTheirMemory) {
  const Tensor column = counted({3, 2, 1}), other = counted({5, 2, 4});
  const Tensor wide = broadcast_to(column, {3, 2, 4});
  const Tensor dense = mul(wide, 1.0);
  for (const char* equation : {"ijk,ljk->il", "ijk,ljk->li", "ijk,ljk->ilj", "ijk,ljk->ik"})
    EXPECT_LT(difference(einsum(equation, {wide, other}), einsum(equation, {dense, other})), 1e-12) << equation;
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
