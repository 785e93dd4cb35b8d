// Views, indices and tensors made of numbers inside compiled functions.
#include <gtest/gtest.h>

#include "starling/autograd/autograd.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/index.h"
#include "starling/ops/api/masked.h"
#include "starling/ops/api/pad.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/sort.h"
#include "starling/runtime/compile.h"

namespace starling::runtime {
namespace {

Tensor counting(const Shape& shape) {
  return reshape(arange(0, static_cast<double>(shape.numel()), 1, DType::f64), shape);
}

template <class F>
void expect_as_eager(F body) {
  const Tensor x = counting({4, 20});
  for (const bool passes : {true, false}) {
    CompileOptions options;
    if (!passes) options.disable = {"all"};
    auto f = compile(body, options);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(f(x).to_vector(), body(x).to_vector());
  }
}

TEST(CompiledViews, RunBackwards) {
  expect_as_eager([](const Tensor& x) {
    const Tensor h = mul(x, 3.0), back = slice(h, {.axis = 1, .begin = kToEnd, .step = -1});
    return add(add(back, h), slice(back, {.axis = 0, .begin = kToEnd, .step = -1}));
  });
}

TEST(CompiledViews, OfDiagonalsAndPieces) {
  expect_as_eager([](const Tensor& x) {
    const auto parts = split(mul(x, 2.0), 5, 1);
    return add(unsqueeze(diagonal(parts[1]), {0}), squeeze(unsqueeze(parts[4], {0})));
  });
}

TEST(CompiledViews, WorkWithIndicesMadeInside) {
  expect_as_eager([](const Tensor& x) {
    const Tensor order = argsort(x, {.axis = 1, .descending = true});
    const Tensor rows = index_select(gather(x, order, 1), arange(3, -1, -1));
    return masked_fill(pad(rows, {.before = {1, 0}}), equal(pad(rows, {.before = {1, 0}}), full({}, 0, DType::f64)), 5);
  });
}

TEST(CompiledViews, HaveTheGradientsOfEagerOnes) {
  expect_as_eager([](const Tensor& x) {
    Tensor leaf = mul(x, 1.0).detach();
    leaf.set_requires_grad();
    const Tensor y = scatter(leaf, full({1, 20}, 2, DType::i64), slice(leaf, {.axis = 0, .end = 1}), 0);
    const Tensor z = sum(mul(y, slice(y, {.axis = 1, .begin = kToEnd, .step = -1})));
    const Tensor of[] = {z}, with[] = {leaf};
    return gradients(of, with)[0];
  });
}

// The gradient is empty, and lies in the middle of what it is cut from.
TEST(CompiledViews, HaveTheGradientOfPaddingAroundNothing) {
  struct Padding {
    Shape shape;
    op::PadAttrs attrs;
  };
  const Padding all[] = {{{0, 2}, {.before = {1, 0}, .after = {1, 1}}},
                         {{3, 0}, {.before = {0, 2}, .after = {1, 3}}},
                         {{0, 3}, {.before = {0, 1}, .mode = Symbol("edge")}},
                         {{0, 3}, {.before = {0, 2}, .after = {0, 1}, .mode = Symbol("reflect")}}};
  for (const Padding& padding : all) {
    const auto step = [&](const Tensor& x) {
      Tensor inner = mul(x, 2.0);
      inner.set_requires_grad();
      const Tensor y = pad(inner, padding.attrs), loss = sum(mul(y, y));
      return add(gradients({&loss, 1}, std::vector<Tensor>{inner})[0], 1.0);
    };
    for (const bool passes : {true, false}) {
      CompileOptions options;
      options.check_aliases = true;
      if (!passes) options.disable = {"all"};
      EXPECT_EQ(compile(step, options)(counting(padding.shape)).shape(), padding.shape);
    }
  }
}

}  // namespace
}  // namespace starling::runtime
