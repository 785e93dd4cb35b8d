#include <gtest/gtest.h>

#include <cmath>

#include "starling/autograd/autograd.h"
#include "starling/ops/api/conv.h"
#include "starling/ops/api/conv_transpose.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/pool.h"
#include "starling/ops/api/reduce.h"
#include "starling/tensor/tensor.h"

// Windows at the edges of what convolution and pooling take.
namespace starling {
namespace {

using Values = std::vector<double>;

TEST(Windows, OfDepthOneThatReadOnlyPaddingAreZero) {
  for (DType dtype : {DType::f32, DType::f64}) {
    Tensor x = full({1, 1, 1, 2, 1}, 1, dtype), w = full({1, 1, 1, 1, 1}, 1, dtype);
    x.set_requires_grad();
    w.set_requires_grad();
    const Tensor y = conv3d(x, w, {}, {.stride = {3, 1, 1}, .padding = {1, 0, 0}});
    EXPECT_EQ(y.shape(), (Shape{1, 1, 1, 2, 1}));
    EXPECT_EQ(y.to_vector(), (Values{0, 0}));
    sum(y).backward();
    EXPECT_EQ(x.grad().to_vector(), (Values{0, 0}));
    EXPECT_EQ(w.grad().to_vector(), (Values{0}));
    const Tensor back = conv_transpose3d(x.detach(), w.detach(), {},
                                         {.stride = {3, 1, 1}, .padding = {1, 0, 0}, .output_padding = {2, 0, 0}});
    EXPECT_EQ(back.to_vector(), (Values{0, 0}));
  }
}

// With x = 2⁻⁸ the gradient is y⁻³ · x³: neither factor is a number of f16, their product is.
TEST(Windows, OfPowersHaveTheirGradientIn16Bits) {
  Tensor x = full({1, 1, 4}, 1.0 / 256, DType::f16);
  x.set_requires_grad();
  const Tensor y = lp_pool1d(x, {.p = 4, .kernel = {2}});
  EXPECT_NEAR(y.to_vector()[0], std::pow(2, 0.25) / 256, 1e-5);
  sum(y).backward();
  for (double v : x.grad().to_vector()) EXPECT_NEAR(v, std::pow(2, -0.75), 2e-3);  // (x / y)³
}

}  // namespace
}  // namespace starling
