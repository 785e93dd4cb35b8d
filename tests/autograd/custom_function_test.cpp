#include "starling/autograd/custom_function.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/autograd_testing.h"

namespace starling {
namespace {

using testing::leaf;
using testing::named;
using testing::number;
using testing::row;

// x³, with a gradient of its own.
const CustomFunction kCube{.name = "cube",
                           .forward =
                               [](FunctionContext& context, std::span<const Tensor> in) {
                                 context.save({in[0]});
                                 return TensorList{mul(in[0], mul(in[0], in[0]))};
                               },
                           .backward =
                               [](FunctionContext& context, std::span<const Tensor> g) {
                                 const Tensor& x = context.saved()[0];
                                 return TensorList{mul(g[0], mul(mul(x, x), 3.0))};
                               }};

Tensor cube(const Tensor& x) { return custom_function({&x, 1}, kCube)[0]; }

TEST(CustomFunction, UsesItsOwnBackward) {
  const Tensor x = leaf(number(2));
  const Tensor y = cube(x);
  EXPECT_EQ(y.item(), 8);
  y.backward();
  EXPECT_EQ(x.grad().item(), 12);
}

TEST(CustomFunction, IsDifferentiatedTwiceThroughItsBackward) {
  EXPECT_DOUBLE_EQ(grad(cube)(number(2)).item(), 12);
  EXPECT_DOUBLE_EQ(grad(grad(cube))(number(2)).item(), 12);
  EXPECT_DOUBLE_EQ(grad(grad(grad(cube)))(number(2)).item(), 6);
}

TEST(CustomFunction, MaySaveOutputsAndDoAnythingOnTheHost) {
  const CustomFunction host{
      .name = "host_exp",
      .forward =
          [](FunctionContext& context, std::span<const Tensor> in) {
            auto values = in[0].to_vector();
            for (auto& v : values) v = std::exp(v);
            const Tensor y = from_doubles(values, in[0].shape(), DType::f64);
            context.save({y});
            return TensorList{y};
          },
      .backward = [](FunctionContext& context,
                     std::span<const Tensor> g) { return TensorList{mul(g[0], context.saved()[0])}; }};
  const TensorFn f = [&](const Tensor& x) { return custom_function({&x, 1}, host)[0]; };
  EXPECT_DOUBLE_EQ(grad(f)(number(1)).item(), std::exp(1));
  EXPECT_DOUBLE_EQ(grad(grad(f))(number(1)).item(), std::exp(1)) << "the saved output has its history";
  auto compiled = compile(f);
  EXPECT_THROW(compiled(number(1)), Error) << "code on the host cannot be traced";
}

TEST(CustomFunction, HasSeveralInputsAndOutputs) {
  const CustomFunction two{.name = "two",
                           .forward =
                               [](FunctionContext& context, std::span<const Tensor> in) {
                                 context.save(in);
                                 return TensorList{mul(in[0], in[1]), in[0]};
                               },
                           .backward =
                               [](FunctionContext& context, std::span<const Tensor> g) {
                                 EXPECT_TRUE(context.needs(0));
                                 EXPECT_FALSE(context.needs(1));
                                 return TensorList{add(mul(g[0], context.saved()[1]), g[1]), Tensor()};
                               }};
  const Tensor x = leaf(number(2)), c = number(5);
  const Tensor in[] = {x, c};
  const TensorList out = custom_function(in, two);
  EXPECT_EQ(out[0].item(), 10);
  out[0].backward();
  EXPECT_EQ(x.grad().item(), 5) << "the second output's gradient is zeros";
  out[1].backward();
  EXPECT_EQ(x.grad().item(), 6);
  EXPECT_FALSE(same(out[1], x));
}

TEST(CustomFunction, GuardsWhatItSaves) {
  Tensor x = named(leaf(number(2)), "weights");
  const Tensor y = cube(x);
  no_grad([&] { assign(x, number(3)); });
  try {
    y.backward();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part : {"[cube]", "weights", "f64[]", "version 1", "was 0"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(CustomFunction, IsTraced) {
  Tensor w = named(leaf(row({1, 2})), "w");
  auto f = compile([&](const Tensor& x) {
    const Tensor y = sum(cube(mul(w, x)));
    return gradients({&y, 1}, {&w, 1})[0];
  });
  EXPECT_EQ(f(row({1, 2})).to_vector(), (std::vector<double>{3, 3 * 16 * 2}));
}

TEST(CustomFunction, WithAWrongNumberOfGradientsIsRefused) {
  CustomFunction wrong = kCube;
  wrong.backward = [](FunctionContext&, std::span<const Tensor>) { return TensorList{}; };
  const Tensor x = leaf(number(2));
  const Tensor y = custom_function({&x, 1}, wrong)[0];
  EXPECT_THROW(y.backward(), Error);
}

TEST(CustomFunction, LongChainsDoNotOverflowTheStack) {
  const Tensor x = leaf(number(1));
  Tensor y = x;
  for (int i = 0; i < 20000; ++i) y = cube(y);
  y.backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(CustomFunction, GradientsOfAnotherDtypeAreRefusedByName) {
  const CustomFunction wide{
      .name = "wide",
      .forward = [](FunctionContext&, std::span<const Tensor> in) { return TensorList{mul(in[0], 2.0)}; },
      .backward = [](FunctionContext&,
                     std::span<const Tensor> g) { return TensorList{cast(mul(g[0], 2.0), DType::f64)}; }};
  const Tensor x = leaf(full({2}, 1, DType::f32));
  const Tensor y = sum(custom_function({&x, 1}, wide)[0]);
  try {
    y.backward();
    FAIL() << "a gradient f64 of an f32 was taken";
  } catch (const Error& error) {
    const std::string said = error.what();
    EXPECT_EQ(said.rfind("[wide] expected", 0), 0u) << said;
    EXPECT_NE(said.find("f32[2], got f64[2]"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace starling
