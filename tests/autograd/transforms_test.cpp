#include "starling/autograd/transforms.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/autograd_testing.h"

namespace starling {
namespace {

using testing::number;
using testing::row;
using testing::slope;

const TensorFn kCurve = [](const Tensor& x) { return sum(mul(tanh(x), exp(mul(x, 0.5)))); };

TEST(Transforms, ValueAndGradGivesBoth) {
  const auto [value, gradient] = value_and_grad([](const Tensor& x) { return sum(mul(x, x)); })(row({1, 2, 3}));
  EXPECT_EQ(value.item(), 14);
  EXPECT_EQ(gradient.to_vector(), (std::vector<double>{2, 4, 6}));
  EXPECT_FALSE(value.requires_grad());
}

TEST(Transforms, ValueAndGradNests) {
  // d/dx of (x³ + 3x²) = 3x² + 6x.
  const auto f = [](const Tensor& x) {
    const auto [value, gradient] = value_and_grad([](const Tensor& t) { return mul(t, mul(t, t)); })(x);
    return add(value, gradient);
  };
  EXPECT_DOUBLE_EQ(grad(f)(number(2)).item(), 24);
}

TEST(Transforms, UnusedInputsAreZerosOrEmpty) {
  Tensor x = number(1), y = number(2);
  x.set_requires_grad();
  y.set_requires_grad();
  const Tensor z = mul(x, 3.0);
  const Tensor wanted[] = {x, y};
  EXPECT_EQ(gradients({&z, 1}, wanted)[1].item(), 0);
  const TensorList g = gradients({&z, 1}, wanted, {}, {.allow_unused = true});
  EXPECT_EQ(g[0].item(), 3);
  EXPECT_FALSE(g[1].defined());
}

TEST(Transforms, PullbackMayBeCalledOften) {
  const Tensor x[] = {row({1, 2}), row({3, 5})};
  const auto [outputs, pullback] = vjp(
      [](std::span<const Tensor> in) {
        return TensorList{mul(in[0], in[1]), add(in[0], 1.0)};
      },
      x);
  EXPECT_EQ(outputs[0].to_vector(), (std::vector<double>{3, 10}));
  for (double scale : {1.0, 2.0}) {
    const Tensor cotangents[] = {row({scale, 0}), row({0, scale})};
    const TensorList g = pullback(cotangents);
    EXPECT_EQ(g[0].to_vector(), (std::vector<double>{3 * scale, scale}));
    EXPECT_EQ(g[1].to_vector(), (std::vector<double>{scale, 0}));
  }
  const Tensor only_second[] = {Tensor(), row({1, 1})};
  EXPECT_EQ(pullback(only_second)[1].to_vector(), (std::vector<double>{0, 0}));
  const Tensor wrong[] = {row({1}), row({1, 1})};
  EXPECT_THROW(pullback(wrong), Error);
}

TEST(Transforms, JvpAgreesWithDifferences) {
  const TensorFn f = [](const Tensor& x) { return mul(softmax(reshape(x, {2, 3})), 2.0); };
  const Tensor x = row({0.3, -1, 0.7, 2, 0.1, -0.4}), v = row({1, 0.5, -2, 0.25, 1, 0});
  const Jvp result = jvp([&](std::span<const Tensor> in) { return TensorList{f(in[0])}; }, {&x, 1}, {&v, 1});
  const auto expected = slope(f, x, v), got = result.tangents[0].to_vector();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-8);
  EXPECT_EQ(result.outputs[0].to_vector(), f(x).to_vector());
}

TEST(Transforms, JvpOfALinearMapIsTheMap) {
  const Tensor a = from_doubles(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3}, DType::f64);
  const Tensor x = from_doubles(std::vector<double>{1, 1, 1}, {3, 1}, DType::f64);
  const Tensor v = from_doubles(std::vector<double>{1, 0, -1}, {3, 1}, DType::f64);
  const Jvp result = jvp([&](std::span<const Tensor> in) { return TensorList{matmul(a, in[0])}; }, {&x, 1}, {&v, 1});
  EXPECT_EQ(result.tangents[0].to_vector(), (std::vector<double>{-2, -2}));
}

TEST(Transforms, JvpOfWhatDoesNotMoveIsZero) {
  const Tensor x = row({1, 2}), v = row({1, 1});
  const Jvp result = jvp([](std::span<const Tensor>) { return TensorList{testing::number(3)}; }, {&x, 1}, {&v, 1});
  EXPECT_EQ(result.tangents[0].item(), 0);
}

TEST(Transforms, JvpNestsInGrad) {
  // The derivative of x³ along 1 is 3x², whose gradient is 6x.
  const TensorFn slope_of_cube = [](const Tensor& x) {
    const Tensor one = number(1);
    return jvp([](std::span<const Tensor> in) { return TensorList{mul(in[0], mul(in[0], in[0]))}; }, {&x, 1}, {&one, 1})
        .tangents[0];
  };
  EXPECT_DOUBLE_EQ(slope_of_cube(number(2)).item(), 12);
  EXPECT_DOUBLE_EQ(grad(slope_of_cube)(number(2)).item(), 12);
}

TEST(Transforms, HessianVectorProductAgreesWithDifferences) {
  const Tensor x = row({0.3, -1, 0.7}), v = row({1, 0.5, -2});
  const auto got = hessian_vector_product(kCurve, x, v).to_vector(), expected = slope(grad(kCurve), x, v);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-7);
}

TEST(Transforms, HessianOfAQuadraticFormIsItsMatrix) {
  const Tensor a = from_doubles(std::vector<double>{2, 1, 1, 5}, {2, 2}, DType::f64);
  const TensorFn f = [&](const Tensor& x) { return mul(sum(mul(x, matmul(a, x))), 0.5); };
  const Tensor x = from_doubles(std::vector<double>{7, 9}, {2, 1}, DType::f64);
  const Tensor v = from_doubles(std::vector<double>{1, 0}, {2, 1}, DType::f64);
  EXPECT_EQ(hessian_vector_product(f, x, v).to_vector(), (std::vector<double>{2, 1}));
}

TEST(Transforms, WorkInsideCompile) {
  const Tensor x = row({0.3, -1, 0.7}), v = row({1, 0.5, -2});
  auto compiled = compile([&](const Tensor& at, const Tensor& along) {
    const Jvp pushed = jvp([](std::span<const Tensor> in) { return TensorList{tanh(in[0])}; }, {&at, 1}, {&along, 1});
    return TensorList{hessian_vector_product(kCurve, at, along), grad(kCurve)(at), pushed.tangents[0]};
  });
  const TensorList got = compiled(x, v);
  const auto hvp = hessian_vector_product(kCurve, x, v).to_vector(), g = grad(kCurve)(x).to_vector();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(got[0].to_vector()[i], hvp[i], 1e-12);
    EXPECT_NEAR(got[1].to_vector()[i], g[i], 1e-12);
  }
  EXPECT_NEAR(got[2].to_vector()[0], 1 - std::tanh(0.3) * std::tanh(0.3), 1e-12);
}

TEST(Transforms, NoGradRunsWithoutRecording) {
  const Tensor x = testing::leaf(number(2));
  EXPECT_FALSE(no_grad([&] { return mul(x, x); }).requires_grad());
  EXPECT_TRUE(mul(x, x).requires_grad());
}

}  // namespace
}  // namespace starling
