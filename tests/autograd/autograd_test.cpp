#include "starling/autograd/autograd.h"

#include <gtest/gtest.h>

#include <cmath>

#include "starling/starling.h"

namespace starling {
namespace {

Tensor number(double value) { return from_doubles(std::vector<double>{value}, {}, DType::f64); }

TEST(Autograd, BackwardAddsToTheSlot) {
  Tensor x = number(3);
  x.set_requires_grad();
  mul(x, x).backward();
  EXPECT_EQ(x.grad().item(), 6);
  mul(x, x).backward();
  EXPECT_EQ(x.grad().item(), 12);
}

TEST(Autograd, GradNestsToAnyOrder) {
  const TensorFn f = [](const Tensor& x) { return mul(mul(x, x), mul(x, x)); };
  EXPECT_DOUBLE_EQ(grad(f)(number(2)).item(), 32);
  EXPECT_DOUBLE_EQ(grad(grad(f))(number(2)).item(), 48);
  EXPECT_DOUBLE_EQ(grad(grad(grad(f)))(number(2)).item(), 48);
  EXPECT_NEAR(grad(grad([](const Tensor& x) { return tanh(x); }))(number(0.5)).item(),
              -2 * std::tanh(0.5) * (1 - std::tanh(0.5) * std::tanh(0.5)), 1e-12);
}

TEST(Autograd, ValuesNotDependedOnGetZeros) {
  Tensor x = number(1), y = number(2);
  x.set_requires_grad();
  y.set_requires_grad();
  const Tensor z = mul(x, 3.0);
  const Tensor wanted[] = {x, y};
  const TensorList g = gradients({&z, 1}, wanted);
  EXPECT_EQ(g[0].item(), 3);
  EXPECT_EQ(g[1].item(), 0);
}

TEST(Autograd, InnerValuesHaveGradientsToo) {
  Tensor x = number(2);
  x.set_requires_grad();
  const Tensor y = mul(x, x);
  const Tensor z = mul(y, y);
  EXPECT_EQ(gradients({&z, 1}, {&y, 1})[0].item(), 8);
}

TEST(Autograd, NothingIsRecordedUnderNoGrad) {
  Tensor x = number(2);
  x.set_requires_grad();
  const NoGrad off;
  EXPECT_FALSE(mul(x, x).requires_grad());
}

TEST(Autograd, AWriteToWhatWasSavedIsNoticed) {
  Tensor x = number(2);
  x.set_requires_grad();
  x.set_name("x");
  const Tensor y = mul(x, x);
  {
    const NoGrad off;
    assign(x, number(5));
  }
  EXPECT_THROW(y.backward(), Error);
}

TEST(Autograd, LeavesDoNotShareGradients) {
  Tensor a = from_doubles(std::vector<double>{1, 2}, {2}, DType::f64),
         b = from_doubles(std::vector<double>{3, 4}, {2}, DType::f64);
  a.set_requires_grad();
  b.set_requires_grad();
  sum(add(a, b)).backward();
  EXPECT_NE(a.grad().raw(), b.grad().raw());
  EXPECT_TRUE(a.grad().contiguous());
}

TEST(Autograd, OneTensorMayBeAskedForTwice) {
  Tensor x = number(3);
  x.set_requires_grad();
  const Tensor y = mul(x, x);
  const Tensor wanted[] = {x, x};
  const TensorList g = gradients({&y, 1}, wanted);
  EXPECT_EQ(g[0].item(), 6);
  EXPECT_EQ(g[1].item(), 6);
  const auto both = grad_all([](std::span<const Tensor> in) { return mul(mul(in[0], in[0]), in[1]); });
  const TensorList parts = both(wanted);
  EXPECT_EQ(parts[0].item(), 18);
  EXPECT_EQ(parts[1].item(), 9);
}

TEST(Autograd, DropoutsGradientUsesItsOwnKey) {
  Tensor x = from_doubles(std::vector<double>(50, 1.0), {50}, DType::f64);
  x.set_requires_grad();
  manual_seed(4);
  const Tensor y = dropout(x, 0.5);
  default_generator().next_step();
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector(), y.to_vector());
}

TEST(Autograd, DetachCutsTheHistory) {
  Tensor x = number(2);
  x.set_requires_grad();
  EXPECT_FALSE(mul(x, x).detach().requires_grad());
}

TEST(Autograd, LongChainsDoNotOverflowTheStack) {
  Tensor x = number(1);
  x.set_requires_grad();
  Tensor y = x;
  for (int i = 0; i < 50000; ++i) y = add(y, 1.0);
  y.backward();
  EXPECT_EQ(x.grad().item(), 1);
}

}  // namespace
}  // namespace starling
