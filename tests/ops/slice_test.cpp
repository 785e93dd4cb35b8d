#include "starling/ops/api/slice.h"

#include <gtest/gtest.h>

#include <limits>

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/indexing.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"

namespace starling {
namespace {

using Values = std::vector<double>;

Tensor counting(const Shape& shape) {
  return reshape(arange(0, static_cast<double>(shape.numel()), 1, DType::f64), shape);
}

TEST(Slice, CountsNegativePlacesFromTheEnd) {
  const Tensor x = counting({6});
  EXPECT_EQ(slice(x, {.begin = -3}).to_vector(), (Values{3, 4, 5}));
  EXPECT_EQ(slice(x, {.begin = 1, .end = -2}).to_vector(), (Values{1, 2, 3}));
  EXPECT_EQ(slice(x, {.begin = -5, .end = -1, .step = 3}).to_vector(), (Values{1, 4}));
}

TEST(Slice, WalksBackwardsAsAView) {
  const Tensor x = counting({6});
  const Tensor back = slice(x, {.begin = kToEnd, .step = -1});
  EXPECT_EQ(back.to_vector(), (Values{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(back.impl()->storage, x.impl()->storage);
  EXPECT_EQ(slice(x, {.begin = 4, .end = 1, .step = -2}).to_vector(), (Values{4, 2}));
  EXPECT_EQ(slice(back, {.begin = kToEnd, .step = -1}).to_vector(), x.to_vector());
}

TEST(Slice, TakesAtMostOneElementByAWildStep) {
  const Tensor x = counting({4});
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min(), kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(slice(x, {.begin = 2, .step = kLeast}).to_vector(), (Values{2}));
  EXPECT_EQ(slice(x, {.begin = 1, .step = kMost}).to_vector(), (Values{1}));
}

TEST(Slice, RefusesPlacesOutside) {
  const Tensor x = counting({4});
  EXPECT_THROW(slice(x, {.begin = 0, .end = 5}), Error);
  EXPECT_THROW(slice(x, {.begin = -5}), Error);
  EXPECT_THROW(slice(x, {.begin = 3, .end = 1}), Error);
  EXPECT_THROW(slice(x, {.begin = 1, .end = 3, .step = -1}), Error);
  EXPECT_THROW(slice(x, {.step = 0}), Error);
  EXPECT_THROW(narrow(x, 0, 2, 3), Error);
  EXPECT_THROW(select(x, 0, 4), Error);
  const std::int64_t sizes[] = {1, 2};
  EXPECT_THROW(split(x, sizes), Error);
  EXPECT_THROW(split(x, 3), Error);
}

TEST(Slice, SeveralAxesAreSlicedOneAfterAnother) {
  const Tensor x = counting({3, 4});
  const op::SliceAttrs both[] = {{.axis = 0, .begin = kToEnd, .step = -2}, {.axis = 1, .begin = 1, .end = 3}};
  EXPECT_EQ(slice(x, both).to_vector(), (Values{9, 10, 1, 2}));
}

// Kernels get memory that runs backwards; results must not depend on it.
TEST(Slice, BackwardsMemoryIsReadByAnyKernel) {
  const Tensor x = counting({3, 20});
  const Tensor back = slice(x, {.axis = 1, .begin = kToEnd, .step = -1});
  const Tensor both = add(back, x);
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 20; ++c) EXPECT_EQ(both.data<double>()[20 * r + c], 40 * r + 19);
  }
  EXPECT_EQ(sum(back, {.axes = {1}}).to_vector(), sum(x, {.axes = {1}}).to_vector());
  EXPECT_EQ(reshape(back, {60}).to_vector()[0], 19);
  EXPECT_EQ(transpose(back).to_vector()[0], 19);
}

TEST(Slice, GradientsOfPiecesAddUp) {
  Tensor x = counting({2, 6});
  x.set_requires_grad();
  const auto pieces = split(x, 3, 1);
  Tensor total = sum(mul(pieces[0], 1.0));
  total = add(total, sum(mul(pieces[1], 10.0)));
  total = add(total, sum(mul(select(x, 0, -1), 100.0)));
  total.backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{1, 1, 10, 10, 0, 0, 101, 101, 110, 110, 100, 100}));
}

TEST(Views, RenameAxesWithoutCopies) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(movedim(x, 0, -1).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(swapaxes(x, 0, 2).shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(unsqueeze(x, {0, -1}).shape(), (Shape{1, 2, 3, 4, 1}));
  EXPECT_EQ(squeeze(unsqueeze(x, {1})).shape(), x.shape());
  EXPECT_EQ(expand(select(x, 2, 0), {5, -1, 3}).shape(), (Shape{5, 2, 3}));
  EXPECT_EQ(diagonal(counting({3, 3})).to_vector(), (Values{0, 4, 8}));
  EXPECT_EQ(diagonal(x).impl()->storage, x.impl()->storage);
  EXPECT_EQ(unbind(x, 1).size(), 3u);
}

TEST(Indexing, PositionsDropAnAxisAndRangesKeepIt) {
  const Tensor x = counting({2, 3, 6});
  const Tensor part = x[{0, all, {2, 5}}];
  EXPECT_EQ(part.to_vector(), (Values{2, 3, 4, 8, 9, 10, 14, 15, 16}));
  EXPECT_EQ(part.shape(), (Shape{3, 3}));
  EXPECT_EQ(part.impl()->storage, x.impl()->storage);
  EXPECT_EQ(x[1].shape(), (Shape{3, 6}));
  EXPECT_EQ(x[-1][-1].to_vector(), (Values{30, 31, 32, 33, 34, 35}));
  EXPECT_EQ((x[{1, 2, 3}].item()), 33);
  EXPECT_EQ((x[{1, 2}].shape()), Shape{6});
  EXPECT_EQ((x[{{0, 1}}].shape()), (Shape{1, 3, 6}));
}

TEST(Indexing, EndsOfARangeMayBeLeftOpen) {
  const Tensor x = counting({6});
  EXPECT_EQ((x[{{4, {}}}].to_vector()), (Values{4, 5}));
  EXPECT_EQ((x[{{{}, -4}}].to_vector()), (Values{0, 1}));
  EXPECT_EQ((x[{{1, {}, 2}}].to_vector()), (Values{1, 3, 5}));
  EXPECT_EQ((x[{{{}, {}, -1}}].to_vector()), (Values{5, 4, 3, 2, 1, 0}));
}

TEST(Indexing, PlacesOutsideAreRefusedWithTheirAxis) {
  const Tensor x = counting({2, 3});
  const auto refused = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_EQ(refused([&] { x[{all, 3}]; }), "[index] expected a position in [-3, 3) for axis 1 of f64[2, 3], got 3");
  EXPECT_EQ(refused([&] { x[{0, 0, 0}]; }), "[index] expected at most 2 places for f64[2, 3], got 3");
  EXPECT_EQ(refused([&] { Tensor()[0]; }), "[index] expected a tensor, got an empty handle");
}

TEST(Indexing, AnUnsignedPositionDoesNotComeBackAsANegativeOne) {
  const Tensor x = arange(0, 4);
  EXPECT_EQ((x[{std::size_t{3}}].item()), 3);
  EXPECT_THROW((x[{static_cast<std::size_t>(-1)}]), Error);
}

TEST(Indexing, GradientsGoToThePart) {
  Tensor x = counting({2, 3});
  x.set_requires_grad();
  sum(mul(x[{1, {0, 2}}], 3.0)).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{0, 0, 0, 3, 3, 0}));
}

TEST(Shapes, AnEmptyBatchKeepsItsFeaturesWhenFlattened) {
  const Tensor x = counting({0, 3, 4});
  EXPECT_EQ(flatten(x).shape(), (Shape{0, 12}));
  EXPECT_EQ(flatten(x, 2).shape(), (Shape{0, 3, 4}));
  EXPECT_EQ(flatten(x, 0).shape(), (Shape{0}));
  EXPECT_EQ(flatten(counting({2, 0, 4})).shape(), (Shape{2, 0}));
  EXPECT_EQ(flatten(counting({5})).shape(), (Shape{5, 1}));
}

TEST(Shapes, FlattenCountsTheFirstAxisFromTheEndTooAndRefusesOthers) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(flatten(x, -2).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(x, -3).shape(), (Shape{24}));
  EXPECT_EQ(flatten(x, 3).shape(), (Shape{2, 3, 4, 1}));
  EXPECT_EQ(flatten(counting({}), 0).shape(), (Shape{1}));
  for (const int from : {4, -4, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()})
    EXPECT_THROW(flatten(x, from), Error) << from;
  EXPECT_THROW(flatten(counting({}), 1), Error);
}

TEST(Shapes, ASizeLeftOpenMustFollowFromTheOthers) {
  const Tensor x = counting({0, 3, 4});
  EXPECT_EQ(reshape(x, {-1, 6}).shape(), (Shape{0, 6}));
  try {
    reshape(x, {0, -1});
    FAIL() << "any size would do";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("[reshape] expected sizes that tell what -1 stands for", 0), 0u)
        << error.what();
  }
}

}  // namespace
}  // namespace starling
