#include "starling/ops/api/linalg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ops/op_checks.h"
#include "starling/autograd/autograd.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/linalg/lapack.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/sparse.h"

namespace starling::testing {
namespace {

Tensor matrices(const Shape& shape, double diagonal) {
  return draw({{{.shape = shape, .diagonal = diagonal}}, op::NoAttrs{}}, DType::f64).in[0];
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Lapack, SharesTheOpenMpRuntime) { EXPECT_EQ(openblas_get_parallel(), 2); }

TEST(Linalg, SingularMatricesAreNamed) {
  const Tensor a = matrices({3, 2, 2}, 5);
  std::fill_n(a.data<double>() + 4, 4, 1.0);
  EXPECT_NE(error_of([&] { inverse(a); }).find("at index 1"), std::string::npos);
  EXPECT_NE(error_of([&] { solve(a, a); }).find("at index 1"), std::string::npos);
  EXPECT_EQ(determinant(a).to_vector()[1], 0);
  EXPECT_EQ(slogdet(a).sign.to_vector()[1], 0);
  EXPECT_EQ(slogdet(a).log.to_vector()[1], -INFINITY);
}

TEST(Linalg, MatricesThatAreNotPositiveDefiniteAreNamed) {
  const Tensor a = matrices({3, 2, 2}, 5);
  a.data<double>()[8] = -1;
  EXPECT_NE(error_of([&] { cholesky(a); }).find("at index 2"), std::string::npos);
  EXPECT_NE(error_of([&] { cholesky(a, {.upper = true}); }).find("at index 2"), std::string::npos);
}

TEST(Linalg, NumbersThatAreNotFiniteAreRefusedByIterations) {
  const Tensor a = matrices({2, 3, 3}, 2);
  a.data<double>()[9] = NAN;
  EXPECT_NE(error_of([&] { svd(a); }).find("at index 1"), std::string::npos);
  EXPECT_NE(error_of([&] { eigh(a); }).find("at index 1"), std::string::npos);
}

TEST(Linalg, SolveBroadcastsAndTakesVectors) {
  const Tensor a = matrices({2, 1, 3, 3}, 3), b = matrices({4, 3, 2}, 0), v = matrices({1, 3}, 0);
  const Tensor x = solve(a, b);
  EXPECT_EQ(x.shape(), (Shape{2, 4, 3, 2}));
  EXPECT_LT(difference(matmul(a, x), broadcast_to(b, {2, 4, 3, 2})), 1e-10);
  const Tensor vector = from_doubles(v.to_vector(), {3}, DType::f64);
  EXPECT_EQ(solve(a, vector).shape(), (Shape{2, 1, 3}));
}

TEST(Linalg, LargeMatricesWithSeveralThreads) {
  const ThreadScope threads(2);
  const Tensor a = matrices({150, 130}, 1);
  const Svd parts = svd(a);
  const Tensor scaled = mul(parts.u, reshape(parts.s, {1, 130}));
  EXPECT_LT(difference(matmul(scaled, parts.vh), a), 1e-10);
  const Qr factors = qr(a);
  EXPECT_LT(difference(matmul(factors.q, factors.r), a), 1e-10);
  const Tensor square = matrices({40, 30, 30}, 3);
  const Tensor identity = matmul(inverse(square), square);
  const auto values = identity.to_vector();
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], i % 900 / 30 == i % 30 ? 1 : 0, 1e-10);
}

TEST(Csr, RefusesPlacesOutsideTheMatrix) {
  const Tensor values = matrices({1, 3}, 0), dense = matrices({4, 2}, 0);
  const Tensor three = from_doubles(values.to_vector(), {3}, DType::f64);
  const auto product = [&](std::vector<std::int64_t> offsets, std::vector<std::int64_t> columns) {
    return csr_matmul(from_host<std::int64_t>(offsets, {static_cast<std::int64_t>(offsets.size())}),
                      from_host<std::int64_t>(columns, {3}), three, dense);
  };
  EXPECT_NO_THROW(product({0, 1, 3}, {0, 3, 3}));
  EXPECT_NE(error_of([&] { product({0, 1, 3}, {0, 4, 1}); }).find("got 4 at position 1"), std::string::npos);
  EXPECT_NE(error_of([&] { product({0, 2, 1, 3}, {0, 1, 1}); }).find("position 2"), std::string::npos);
  EXPECT_NE(error_of([&] { product({0, 1, 4}, {0, 1, 1}); }).find("in [0, 3]"), std::string::npos);
  EXPECT_NE(error_of([&] { product({-1, 1, 3}, {0, 1, 1}); }).find("in [0, 3]"), std::string::npos);
}

TEST(Linalg, DerivativesAtSingularMatricesAreRefusedByTheOpsName) {
  Tensor a = full({2, 2}, 1, DType::f64);
  a.set_requires_grad();
  const Tensor det = determinant(a), log = slogdet(a).log;
  EXPECT_EQ(error_of([&] { det.backward(); }).rfind("[determinant] expected", 0), 0u);
  EXPECT_EQ(error_of([&] { log.backward(); }).rfind("[slogdet] expected", 0), 0u);
}

TEST(Linalg, TheInverseOfAMatrixWithNanIsNanAndLeavesOthersAlone) {
  const Tensor a = matrices({3, 3, 3}, 4), b = matrices({3, 3, 2}, 0);
  const auto before = inverse(a).to_vector();
  const double lower[] = {1, 0, 0, 0, 1, 0, 0, NAN, 0};  // singular but for the NaN, which no other element meets
  std::copy_n(lower, 9, a.data<double>() + 9);
  const auto inverted = inverse(a).to_vector(), solved = solve(a, b).to_vector();
  for (std::size_t i = 0; i < inverted.size(); ++i) {
    if (i / 9 == 1)
      EXPECT_TRUE(std::isnan(inverted[i])) << i;
    else
      EXPECT_EQ(inverted[i], before[i]) << i;
  }
  for (std::size_t i = 0; i < solved.size(); ++i) EXPECT_EQ(std::isnan(solved[i]), i / 6 == 1) << i;
}

}  // namespace
}  // namespace starling::testing
