#include "starling/ops/api/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/arg_reduce.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/scan.h"
#include "starling/ops/api/softmax.h"
#include "starling/ops/api/variance.h"

namespace starling {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Values = std::vector<double>;

Tensor tensor(const Values& values, const Shape& shape, DType dtype = DType::f32) {
  return from_doubles(values, shape, dtype);
}

Values gradient(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  Tensor leaf = x.detach();
  leaf.set_requires_grad();
  f(leaf).backward();
  return leaf.grad().to_vector();
}

// Runs a body with fast kernels and with the reference ones.
template <class F>
void both(F body) {
  body();
  const kernels::ReferenceScope reference;
  body();
}

TEST(Reductions, OfIntegersGiveSixtyFourBits) {
  both([] {
    for (DType dtype : {DType::i32, DType::u8, DType::boolean, DType::i16, DType::i64}) {
      const Tensor x = tensor({1, 1, 0, 1, 1, 1}, {2, 3}, dtype);
      EXPECT_EQ(sum(x).dtype(), DType::i64);
      EXPECT_EQ(sum(x).item(), 5) << name(dtype);
      EXPECT_EQ(sum(x, {.axes = {0}}).to_vector(), (Values{2, 2, 1}));
      EXPECT_EQ(prod(x, {.axes = {1}}).to_vector(), (Values{0, 1}));
      EXPECT_EQ(cumsum(x, {.axis = 0}).to_vector(), (Values{1, 1, 0, 2, 2, 1}));
      EXPECT_EQ(cumsum(x).dtype(), DType::i64);
    }
    const Tensor large = tensor(Values(300, 255), {300}, DType::u8);
    EXPECT_EQ(sum(large).item(), 300 * 255);
    EXPECT_EQ(max(tensor({-3, 7, 5}, {3}, DType::i32)).item(), 7);
    EXPECT_EQ(min(tensor({-3, 7, 5}, {3}, DType::i64)).item(), -3);
  });
}

TEST(Reductions, OverNothingGiveTheirIdentityOrRefuse) {
  both([] {
    const Tensor none = tensor({}, {0, 2});
    const op::ReduceAttrs first{.axes = {0}};
    EXPECT_EQ(sum(none, first).to_vector(), (Values{0, 0}));
    EXPECT_EQ(prod(none, first).to_vector(), (Values{1, 1}));
    EXPECT_EQ(logsumexp(none, first).to_vector(), (Values{-kInfinity, -kInfinity}));
    EXPECT_EQ(norm(none, {.axes = {0}}).to_vector(), (Values{0, 0}));
    EXPECT_EQ(any(none, first).to_vector(), (Values{0, 0}));
    EXPECT_EQ(all(none, first).to_vector(), (Values{1, 1}));
    EXPECT_TRUE(std::isnan(mean(none).item()));
    EXPECT_TRUE(std::isnan(var(none).item()));
    for (const auto& f : {max, min, argmax, argmin}) EXPECT_THROW(f(none, first), Error);
    EXPECT_EQ(argmax(none, {.axes = {1}}).shape(), (Shape{0}));
  });
}

TEST(Reductions, NanWinsMaximaAndMinima) {
  both([] {
    for (const std::size_t at : {0u, 3u, 40u, 99u}) {
      Values values(100, 1);
      values[at] = kNan;
      for (DType dtype : {DType::f32, DType::f64}) {
        const Tensor row = tensor(values, {100}, dtype), columns = tensor(values, {50, 2}, dtype);
        EXPECT_TRUE(std::isnan(max(row).item()) && std::isnan(min(row).item()));
        EXPECT_EQ(argmax(row).item(), static_cast<double>(at));
        EXPECT_EQ(argmin(row).item(), static_cast<double>(at));
        EXPECT_EQ(argmax(columns, {.axes = {0}}).to_vector()[at % 2], static_cast<double>(at / 2));
        EXPECT_TRUE(std::isnan(norm(row, {.p = kInfinity}).item()) && std::isnan(logsumexp(row).item()));
        EXPECT_EQ(gradient(row, [](const Tensor& x) { return max(x); })[at], 1);
      }
    }
  });
}

TEST(Reductions, TheFirstOfEqualValuesIsChosen) {
  both([] {
    const Tensor x = tensor({1, 3, 3, 0, 3, 0}, {2, 3});
    EXPECT_EQ(argmax(x).item(), 1);
    EXPECT_EQ(argmin(x).item(), 3);
    EXPECT_EQ(argmax(x, {.axes = {1}}).to_vector(), (Values{1, 1}));
    EXPECT_EQ(argmin(x, {.axes = {0}}).to_vector(), (Values{1, 0, 1}));
    EXPECT_EQ(gradient(x, [](const Tensor& v) { return max(v); }), (Values{0, 1, 0, 0, 0, 0}));
    EXPECT_EQ(gradient(x, [](const Tensor& v) { return min(v); }), (Values{0, 0, 0, 1, 0, 0}));
    EXPECT_EQ(gradient(x, [](const Tensor& v) { return sum(max(v, {.axes = {0}})); }), (Values{1, 1, 1, 0, 0, 0}));
    EXPECT_EQ(gradient(x, [](const Tensor& v) { return norm(v, {.p = kInfinity}); }), (Values{0, 1, 0, 0, 0, 0}));
  });
}

TEST(Reductions, LongRowsAreSearchedInPieces) {
  const ThreadScope threads(3);
  Values values(200'000);
  std::mt19937 random(1);
  for (auto& v : values) v = static_cast<double>(random() % 1000);
  values[150'001] = values[150'002] = 5000;
  values[77] = values[199'999] = -4;
  const Tensor x = tensor(values, {200'000});
  EXPECT_EQ(argmax(x).item(), 150'001);
  EXPECT_EQ(argmin(x).item(), 77);
  EXPECT_EQ(gradient(x, [](const Tensor& v) { return max(v); })[150'001], 1);
  const Tensor running = cumsum(tensor(Values(200'000, 1), {200'000}));
  EXPECT_EQ(running.to_vector()[131'071], 131'072);
  EXPECT_EQ(running.to_vector().back(), 200'000);
  EXPECT_EQ(cumsum(tensor(Values(200'000, 1), {200'000}), {.exclusive = true, .reverse = true}).to_vector()[0],
            199'999);
}

TEST(Products, HaveRightGradientsWhereFactorsAreZero) {
  both([] {
    const auto f = [](const Tensor& x) { return prod(x); };
    EXPECT_EQ(gradient(tensor({2, 0, 3, 4}, {4}), f), (Values{0, 24, 0, 0}));
    EXPECT_EQ(gradient(tensor({2, 0, 3, 0}, {4}), f), (Values{0, 0, 0, 0}));
    const auto g = [](const Tensor& x) { return sum(cumprod(x)); };
    EXPECT_EQ(gradient(tensor({2, 0, 3, 4}, {4}), g), (Values{1, 32, 0, 0}));
    EXPECT_EQ(gradient(tensor({2, 0, 0, 4}, {4}), g), (Values{1, 2, 0, 0}));
  });
}

TEST(Norms, HaveNoGradientAtZero) {
  both([] {
    for (const double p : {1.0, 1.5, 2.0, 3.0, kInfinity}) {
      const auto grads =
          gradient(tensor(Values(6, 0), {2, 3}), [p](const Tensor& x) { return sum(norm(x, {.p = p, .axes = {1}})); });
      EXPECT_EQ(grads, Values(6, 0)) << p;
    }
    EXPECT_EQ(norm(tensor({3e30, 4e30}, {2})).item(), static_cast<double>(5e30f));  // no overflow in between
    EXPECT_THROW(norm(tensor({1}, {1}), {.p = 0}), Error);
    EXPECT_THROW(norm(tensor({1}, {1}), {.p = kNan}), Error);
  });
}

TEST(LogSumExp, SurvivesInfinities) {
  both([] {
    const Tensor x = tensor({-kInfinity, -kInfinity, 1, kInfinity, 1000, 1000}, {3, 2});
    const Values y = logsumexp(x, {.axes = {1}}).to_vector();
    EXPECT_EQ(y[0], -kInfinity);
    EXPECT_EQ(y[1], kInfinity);
    EXPECT_NEAR(y[2], 1000 + std::log(2.0), 1e-4);
    const Tensor rows = tensor({-kInfinity, -kInfinity, 1000, 1000}, {2, 2});
    const auto f = [](const Tensor& v) { return sum(logsumexp(v, {.axes = {1}})); };
    EXPECT_EQ(gradient(rows, f)[0], 0);
    EXPECT_NEAR(gradient(rows, f)[2], 0.5, 1e-4);
    const Tensor columns = tensor({-kInfinity, 1000, -kInfinity, 1000}, {2, 2});
    EXPECT_EQ(logsumexp(columns, {.axes = {0}}).to_vector()[0], -kInfinity);
  });
}

TEST(Variances, AreRightWhereTheMeanIsLarge) {
  std::mt19937 random(2);
  std::normal_distribution<double> noise(0, 16);  // floats near 1e8 are 8 apart
  const std::int64_t n = 60'000;
  Values values(static_cast<std::size_t>(n));
  for (auto& v : values) v = static_cast<double>(static_cast<float>(1e8 + noise(random)));
  double mean = 0, want = 0;
  for (double v : values) mean += v / static_cast<double>(n);
  for (double v : values) want += (v - mean) * (v - mean) / static_cast<double>(n - 1);
  both([&] {
    EXPECT_NEAR(var(tensor(values, {n})).item() / want, 1, 1e-5);
    EXPECT_NEAR(stddev(tensor(values, {n}, DType::f64)).item() / std::sqrt(want), 1, 1e-9);
    for (const Shape& axes : {Shape{0}, Shape{1}, Shape{0, 2}}) {
      const Tensor x = tensor(values, {100, 20, 30});
      for (const double v : var(x, {.axes = axes}).to_vector()) {
        EXPECT_GT(v, 0.1 * want);
        EXPECT_LT(v, 5 * want);
      }
    }
  });
}

TEST(Variances, DoNotDependOnThreads) {
  std::mt19937 random(2);
  Values values(400'000);
  for (auto& v : values) v = static_cast<double>(random() % 1000);
  for (const Shape& shape : {Shape{400'000}, Shape{2, 200'000}, Shape{4, 100, 1000}}) {
    const Tensor x = tensor(values, shape);
    const op::VarAttrs attrs{.axes = shape.rank() == 3 ? Shape{0, 2} : Shape{-1}};
    const Values one = [&] {
      const ThreadScope threads(1);
      return var(x, attrs).to_vector();
    }();
    const ThreadScope threads(3);
    EXPECT_EQ(var(x, attrs).to_vector(), one) << to_string(shape);
  }
}

TEST(Variances, OfEqualValuesAreZeroWithoutGradient) {
  const auto f = [](const Tensor& x) { return stddev(x); };
  EXPECT_EQ(stddev(tensor({5, 5, 5}, {3})).item(), 0);
  EXPECT_EQ(gradient(tensor({5, 5, 5}, {3}), f), (Values{0, 0, 0}));
  EXPECT_THROW(var(tensor({1, 2}, {2}), {.correction = -1}), Error);
}

TEST(Scans, RunEitherWayWithOrWithoutTheElementItself) {
  both([] {
    const Tensor x = tensor({1, 2, 3, 4}, {4});
    EXPECT_EQ(cumsum(x, {.exclusive = true}).to_vector(), (Values{0, 1, 3, 6}));
    EXPECT_EQ(cumsum(x, {.reverse = true}).to_vector(), (Values{10, 9, 7, 4}));
    EXPECT_EQ(cumprod(x, {.exclusive = true, .reverse = true}).to_vector(), (Values{24, 12, 4, 1}));
    const Tensor half = tensor({0.5, 0.5, 0.5, 0.5}, {4});
    EXPECT_EQ(linear_recurrence(half, x).to_vector(), (Values{1, 2.5, 4.25, 6.125}));
    EXPECT_EQ(linear_recurrence(half, x, {.reverse = true}).to_vector(), (Values{3.25, 4.5, 5, 4}));
  });
}

// A piece of the line alone overflows; behind a zero it counts for nothing.
TEST(Scans, ProductsOfLongLinesStayZeroAfterAZero) {
  Values values(200000, 2.0);
  values[0] = 0;
  const ThreadScope threads(3);
  both([&] {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Values y = cumprod(tensor(values, {200000}, dtype)).to_vector();
      EXPECT_EQ(std::count(y.begin(), y.end(), 0.0), 200000);
    }
  });
}

TEST(LogSoftmax, KeepsMaskedElementsAtMinusInfinity) {
  both([] {
    const Tensor x = tensor({-kInfinity, 0, -1e30, 5, 1e4, -1e4}, {2, 3});
    const Values y = log_softmax(x).to_vector(), p = softmax(x, 0).to_vector();
    EXPECT_EQ(y[0], -kInfinity);
    EXPECT_EQ(y[1], 0);
    EXPECT_NEAR(y[3], 5 - 1e4, 1e-2);
    EXPECT_EQ(p[0], 0);
    EXPECT_EQ(p[3], 1);
    EXPECT_EQ(p[4], 1);
  });
}

}  // namespace
}  // namespace starling
