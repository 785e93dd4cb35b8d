#include "starling/ops/api/index.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/masked.h"
#include "starling/ops/api/pad.h"
#include "starling/ops/api/reduce.h"
#include "starling/tensor/bytes.h"

namespace starling {
namespace {

using Values = std::vector<double>;

Tensor ints(std::vector<std::int64_t> values) {
  return from_host<std::int64_t>(values, {static_cast<std::int64_t>(values.size())});
}
Tensor floats(Values values) { return from_doubles(values, {static_cast<std::int64_t>(values.size())}, DType::f64); }

template <class F>
void expect_named(F&& call, std::initializer_list<const char*> parts) {
  try {
    call();
    FAIL() << "a wrong index was taken";
  } catch (const Error& error) {
    for (const char* part : parts) EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Index, OutOfRangeNamesPositionAndValue) {
  const Tensor x = floats({1, 2, 3}), one = floats({9, 9, 9});
  const Tensor wrong = ints({0, 2, 7}), negative = ints({0, -1, 1}), low = ints({0, 1, -4});
  for (const bool reference : {false, true}) {
    std::optional<kernels::ReferenceScope> scope;
    if (reference) scope.emplace();
    const auto both = [&](const Tensor& index, std::initializer_list<const char*> parts) {
      expect_named([&] { gather(x, index, 0); }, parts);
      expect_named([&] { scatter(x, index, one, 0); }, parts);
      expect_named([&] { scatter_add(x, index, one, 0); }, parts);
      expect_named([&] { index_select(x, index); }, parts);
      expect_named([&] { index_add(x, index, one); }, parts);
      expect_named([&] { one_hot(index, 3); }, parts);
    };
    both(wrong, {"got 7", "position 2", "[0, 3)"});
    both(negative, {"got -1", "position 1"});
    const Tensor lows[] = {low};
    expect_named([&] { take(x, low); }, {"got -4", "position 2", "[-3, 3)"});
    expect_named([&] { index_get(x, lows); }, {"got -4", "position 2"});
    expect_named([&] { index_put(x, lows, one); }, {"got -4", "position 2"});
  }
}

TEST(Index, NegativeOnesCountFromTheEndWhereTheyMay) {
  const Tensor x = floats({1, 2, 3}), index[] = {ints({-1, 0})};
  EXPECT_EQ(take(x, index[0]).to_vector(), (Values{3, 1}));
  EXPECT_EQ(index_get(x, index).to_vector(), (Values{3, 1}));
  EXPECT_EQ(index_put(x, index, floats({7, 8})).to_vector(), (Values{8, 2, 7}));
}

TEST(Index, ThirtyTwoBitsAreTakenToo) {
  const Tensor index = cast(ints({2, 0}), DType::i32);
  EXPECT_EQ(index_select(floats({1, 2, 3}), index).to_vector(), (Values{3, 1}));
  EXPECT_EQ(gather(floats({1, 2, 3}), index, 0).to_vector(), (Values{3, 1}));
}

TEST(Index, ValuesAndIndicesOfPutAreBroadcast) {
  const Tensor x = reshape(arange(0, 6, 1, DType::f64), {2, 3});
  const Tensor index[] = {reshape(ints({0, 1}), {2, 1}), ints({0, 2})};
  EXPECT_EQ(index_put(x, index, full({}, 9, DType::f64)).to_vector(), (Values{9, 1, 9, 9, 4, 9}));
  EXPECT_EQ(index_get(x, index).to_vector(), (Values{0, 2, 3, 5}));
}

TEST(Scatter, TheLastOfSeveralStaysAndGetsTheGradient) {
  Tensor x = floats({1, 2, 3}), source = floats({10, 20, 30});
  x.set_requires_grad();
  source.set_requires_grad();
  const Tensor y = scatter(x, ints({1, 1, 0}), source, 0);
  EXPECT_EQ(y.to_vector(), (Values{30, 20, 3}));
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{0, 0, 1}));
  EXPECT_EQ(source.grad().to_vector(), (Values{0, 1, 1}));
}

TEST(Scatter, ReadsOnlyThePartOfTheSourceBesideTheIndex) {
  const Tensor source = floats({10, 20, 30});
  EXPECT_EQ(scatter(floats({1, 2, 3}), ints({2}), source, 0).to_vector(), (Values{1, 2, 10}));
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && std::memcmp(a.raw(), b.raw(), bytes_of(a)) == 0;
}

// f32 sums depend on their order, which must be that of the elements, however the work is split.
TEST(ScatterAdd, IsTheSameToTheLastBitWithAnyNumberOfThreads) {
  std::mt19937 random(3);
  struct Sizes {
    Shape x, index;
    int axis;
  };
  for (const auto& s : {Sizes{{40, 30, 20}, {40, 200, 20}, 1},  // cut along the outer axes
                        Sizes{{30, 512}, {400, 512}, 0},        // along the inner ones
                        Sizes{{1000}, {200000}, 0}}) {          // by target
    Values values(static_cast<std::size_t>(s.index.numel()));
    std::vector<std::int64_t> places(values.size());
    for (auto& v : values) v = std::uniform_real_distribution<double>(-1e3, 1e3)(random);
    for (auto& p : places) p = static_cast<std::int64_t>(random() % static_cast<unsigned>(s.x[s.axis]));
    const Tensor source = from_doubles(values, s.index), index = from_host<std::int64_t>(places, s.index);
    const Tensor x = full(s.x, 0.1);
    const auto run = [&] {
      return std::vector<Tensor>{scatter_add(x, index, source, s.axis), scatter(x, index, source, s.axis)};
    };
    const auto want = run();
    for (int threads : {2, 3, 5}) {
      const ThreadScope scope(threads);
      const auto got = run();
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i << ", " << threads;
    }
    const kernels::ReferenceScope reference;
    EXPECT_TRUE(same_bits(run()[1], want[1]));
  }
}

TEST(IndexAdd, IsTheSameToTheLastBitWithAnyNumberOfThreads) {
  std::mt19937 random(4);
  for (const std::int64_t width : {3, 700}) {
    const std::int64_t rows = 50, count = 200000 / width;
    Values values(static_cast<std::size_t>(count * width));
    for (auto& v : values) v = std::uniform_real_distribution<double>(-1e3, 1e3)(random);
    std::vector<std::int64_t> places(static_cast<std::size_t>(count));
    for (auto& p : places) p = static_cast<std::int64_t>(random() % static_cast<unsigned>(rows));
    const Tensor source = from_doubles(values, {count, width}), x = full({rows, width}, 0.1), index = ints(places);
    const Tensor want = index_add(x, index, source);
    const ThreadScope scope(3);
    EXPECT_TRUE(same_bits(index_add(x, index, source), want));
    const Tensor indices[] = {index};
    EXPECT_TRUE(same_bits(index_put(x, indices, source, true), want));
    EXPECT_TRUE(same_bits(index_select(want, index), index_get(want, indices)));
  }
}

TEST(Masked, SelectionsHaveTheLengthOfTheMask) {
  const Tensor x = floats({1, 2, 3, 4}), mask = greater(x, floats({2}));
  EXPECT_EQ(masked_select(x, mask).to_vector(), (Values{3, 4}));
  EXPECT_EQ(masked_gather(x, mask, 3).to_vector(), (Values{3, 4, 0}));
  EXPECT_EQ(masked_scatter(x, mask, floats({8, 9})).to_vector(), (Values{1, 2, 8, 9}));
  EXPECT_THROW(masked_gather(x, mask, 1), Error);
  EXPECT_THROW(masked_scatter(x, mask, floats({8})), Error);
  EXPECT_EQ(nonzero(mask).to_vector(), (Values{2, 3}));
}

TEST(Masked, ValuesThatTheDtypeDoesNotHoldAreRefused) {
  struct Bound {
    DType dtype;
    double held, beyond;
  };
  for (const auto& [dtype, held, beyond] :
       {Bound{DType::i8, 127, 128}, Bound{DType::i8, -128, -129}, Bound{DType::u8, 255, 256}, Bound{DType::u8, 0, -1},
        Bound{DType::i32, 2147483647, 2147483648}, Bound{DType::i64, -0x1p63, 0x1p63}, Bound{DType::boolean, 1, 2},
        Bound{DType::u16, 65535, 0.5}, Bound{DType::u64, 0x1p62, -1}}) {
    const Tensor x = full({2}, 0, dtype), mask = full({2}, 1, DType::boolean);
    EXPECT_EQ(masked_fill(x, mask, held).to_vector()[0], held) << name(dtype);
    EXPECT_THROW(masked_fill(x, mask, beyond), Error) << name(dtype);
    EXPECT_EQ(pad(x, {.before = {1}, .value = held}).to_vector()[0], held) << name(dtype);
    EXPECT_THROW(pad(x, {.before = {1}, .value = beyond}), Error) << name(dtype);
  }
}

}  // namespace
}  // namespace starling
