#include <gtest/gtest.h>

#include <functional>

#include "kernels/simd_testing.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/vector_ops.h"

namespace starling::kernels {
namespace {

using testing::for_each_target;
using testing::ulps;
using testing::Unaligned;

BlockTable blocks() {
  BlockTable table;
  register_cpu_blocks(table);
  return table;
}

template <class T>
constexpr BlockType kLaneOf = std::is_same_v<T, float>          ? BlockType::f32
                              : std::is_same_v<T, double>       ? BlockType::f64
                              : std::is_same_v<T, std::int32_t> ? BlockType::i32
                                                                : BlockType::i64;

template <class T>
double worst_ulps(const char* name, double (*exact)(double), double low, double high) {
  const BlockTable table = blocks();
  const std::int64_t n = 200003;
  Unaligned<T> x(n), y(n);
  for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(low + (high - low) * static_cast<double>(i) / (n - 1));
  const void* in[] = {x.data()};
  table.find(name)->of(kLaneOf<T>)(in, 0, y.data(), n, nullptr);
  EXPECT_TRUE(y.intact());
  double worst = 0;
  for (std::int64_t i = 0; i < n; ++i) worst = std::max(worst, ulps<T>(y[i], exact(static_cast<double>(x[i]))));
  return worst;
}

double exact_sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

TEST(VectorOps, TranscendentalsOfFloatsAreWithinFourUlps) {
  for_each_target([] {
    const auto check_all = [](const char* name, double (*exact)(double), double low, double high) {
      EXPECT_LE(worst_ulps<float>(name, exact, low, high), 4.0) << name << " on [" << low << ", " << high << "]";
    };
    check_all("exp", std::exp, -110, 90);
    check_all("exp", std::exp, -1, 1);
    check_all("log", std::log, 1e-30, 1e-28);
    check_all("log", std::log, 0.5, 2);
    check_all("log", std::log, 0.999, 1.001);
    check_all("log", std::log, 1e-44, 1e-38);
    check_all("log", std::log, 1, 1e38);
    check_all("tanh", std::tanh, -12, 12);
    check_all("tanh", std::tanh, -0.7, 0.7);
    check_all("tanh", std::tanh, -1e-6, 1e-6);
    check_all("sigmoid", exact_sigmoid, -110, 110);
    check_all("sigmoid", exact_sigmoid, -2, 2);
    check_all("sqrt", std::sqrt, 0, 10);
  });
}

TEST(VectorOps, TranscendentalsOfDoublesAreWithinFourUlps) {
  for_each_target([] {
    EXPECT_LE(worst_ulps<double>("exp", std::exp, -750, 712), 4.0);
    EXPECT_LE(worst_ulps<double>("exp", std::exp, -1, 1), 4.0);
    EXPECT_LE(worst_ulps<double>("log", std::log, 0.5, 2), 4.0);
    EXPECT_LE(worst_ulps<double>("log", std::log, 1e-310, 1e-307), 4.0);
    EXPECT_LE(worst_ulps<double>("tanh", std::tanh, -25, 25), 4.0);
    EXPECT_LE(worst_ulps<double>("tanh", std::tanh, -1e-3, 1e-3), 4.0);
    EXPECT_LE(worst_ulps<double>("sigmoid", exact_sigmoid, -700, 700), 4.0);
  });
}

template <class T>
T apply(const BlockTable& table, const char* name, std::vector<T> operands) {
  const void* in[3] = {};
  for (std::size_t k = 0; k < operands.size(); ++k) in[k] = &operands[k];
  T out = 0;
  table.find(name)->of(kLaneOf<T>)(in, 0, &out, 1, nullptr);
  return out;
}

template <class T>
void expect_limits() {
  const BlockTable table = blocks();
  const T inf = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (const char* name : {"exp", "log", "tanh", "sigmoid", "relu", "sqrt"}) {
    EXPECT_TRUE(std::isnan(apply<T>(table, name, {nan}))) << name;
  }
  EXPECT_EQ(apply<T>(table, "exp", {inf}), inf);
  EXPECT_EQ(apply<T>(table, "exp", {-inf}), 0);
  EXPECT_EQ(apply<T>(table, "exp", {0}), 1);
  EXPECT_EQ(apply<T>(table, "exp", {std::numeric_limits<T>::max()}), inf);
  EXPECT_EQ(apply<T>(table, "log", {inf}), inf);
  EXPECT_EQ(apply<T>(table, "log", {0}), -inf);
  EXPECT_EQ(apply<T>(table, "log", {1}), 0);
  EXPECT_TRUE(std::isnan(apply<T>(table, "log", {-1})));
  EXPECT_EQ(apply<T>(table, "tanh", {inf}), 1);
  EXPECT_EQ(apply<T>(table, "tanh", {-inf}), -1);
  EXPECT_EQ(apply<T>(table, "tanh", {1000}), 1);
  EXPECT_EQ(apply<T>(table, "sigmoid", {inf}), 1);
  EXPECT_EQ(apply<T>(table, "sigmoid", {-inf}), 0);
  EXPECT_EQ(apply<T>(table, "sigmoid", {0}), T{0.5});
  for (const char* name : {"maximum", "minimum"}) {
    EXPECT_TRUE(std::isnan(apply<T>(table, name, {nan, 1}))) << name;
    EXPECT_TRUE(std::isnan(apply<T>(table, name, {1, nan}))) << name;
  }
  EXPECT_EQ(apply<T>(table, "relu", {-inf}), 0);
}

TEST(VectorOps, LimitsAndNanAreRight) {
  for_each_target([] {
    expect_limits<float>();
    expect_limits<double>();
  });
}

// Every mix of array and scalar operands, every length around a few vectors.
template <class T, class Out>
void expect_binary(const char* name, const std::function<double(double, double)>& exact) {
  const BlockTable table = blocks();
  const BlockEntry* entry = table.find(name);
  ASSERT_NE(entry, nullptr) << name;
  ASSERT_EQ(entry->bool_output, (std::is_same_v<Out, std::uint8_t>)) << name;
  for (const std::int64_t n : {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100}) {
    for (unsigned scalars = 0; scalars < 4; ++scalars) {
      Unaligned<T> a(n + 1), b(n + 1);
      Unaligned<Out> out(n);
      for (std::int64_t i = 0; i <= n; ++i) a[i] = static_cast<T>(i % 7 - 3), b[i] = static_cast<T>(i % 5 - 1.5);
      const void* in[] = {a.data(), b.data()};
      entry->of(kLaneOf<T>)(in, scalars, out.data(), n, nullptr);
      EXPECT_TRUE(out.intact()) << name << " n " << n;
      for (std::int64_t i = 0; i < n; ++i) {
        const double x = static_cast<double>(a[(scalars & 1) != 0 ? 0 : i]);
        const double y = static_cast<double>(b[(scalars & 2) != 0 ? 0 : i]);
        const Out want = static_cast<Out>(exact(x, y));
        ASSERT_NEAR(static_cast<double>(out[i]), static_cast<double>(want), 1e-5) << name << " n " << n << " i " << i;
      }
    }
  }
}

template <class T>
void expect_any_lane() {
  expect_binary<T, T>("add", std::plus<>());
  expect_binary<T, T>("sub", std::minus<>());
  expect_binary<T, T>("mul", std::multiplies<>());
  expect_binary<T, T>("maximum", [](double a, double b) { return std::max(a, b); });
  expect_binary<T, T>("minimum", [](double a, double b) { return std::min(a, b); });
  expect_binary<T, std::uint8_t>("equal", std::equal_to<>());
  expect_binary<T, std::uint8_t>("not_equal", std::not_equal_to<>());
  expect_binary<T, std::uint8_t>("less", std::less<>());
  expect_binary<T, std::uint8_t>("less_equal", std::less_equal<>());
  expect_binary<T, std::uint8_t>("greater", std::greater<>());
  expect_binary<T, std::uint8_t>("greater_equal", std::greater_equal<>());
}

template <class T>
void expect_float_lane() {
  expect_any_lane<T>();
  expect_binary<T, T>("div", std::divides<>());
  expect_binary<T, T>("relu_backward", [](double dy, double y) { return y > 0 ? dy : 0; });
  expect_binary<T, T>("tanh_backward", [](double dy, double y) { return dy * (1 - y * y); });
  expect_binary<T, T>("sigmoid_backward", [](double dy, double y) { return dy * y * (1 - y); });
  expect_binary<T, T>("sqrt_backward", [](double dy, double y) { return dy / (2 * y); });
}

TEST(VectorOps, BinaryFunctionsTakeArraysAndScalarsOfAnyLength) {
  for_each_target([] {
    expect_float_lane<float>();
    expect_float_lane<double>();
    expect_any_lane<std::int32_t>();
    expect_any_lane<std::int64_t>();
  });
}

template <class T>
void expect_where() {
  const BlockTable table = blocks();
  for (const std::int64_t n : {1, 5, 16, 37}) {
    for (unsigned scalars = 0; scalars < 8; ++scalars) {
      Unaligned<std::uint8_t> condition(n, 3);
      Unaligned<T> a(n), b(n), out(n);
      for (std::int64_t i = 0; i < n; ++i) {
        condition[i] = i % 3 != 0, a[i] = static_cast<T>(i + 1), b[i] = static_cast<T>(-i - 1);
      }
      const void* in[] = {condition.data(), a.data(), b.data()};
      table.find("where")->of(kLaneOf<T>)(in, scalars, out.data(), n, nullptr);
      EXPECT_TRUE(out.intact());
      const auto at = [&](int operand, std::int64_t i) { return (scalars >> operand & 1) != 0 ? 0 : i; };
      for (std::int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(out[i], condition[at(0, i)] != 0 ? a[at(1, i)] : b[at(2, i)]) << "n " << n << " scalars " << scalars;
      }
    }
  }
}

TEST(VectorOps, WhereSelectsByBytes) {
  for_each_target([] {
    expect_where<float>();
    expect_where<double>();
    expect_where<std::int32_t>();
    expect_where<std::int64_t>();
  });
}

TEST(VectorOps, IntegerProductsWrapIn64Bits) {
  for_each_target([] {
    const BlockTable table = blocks();
    const std::int64_t a[] = {3037000500, -4, 1LL << 40}, b[] = {3037000499, 1LL << 35, 5};
    std::int64_t out[3];
    const void* in[] = {a, b};
    table.find("mul")->of(BlockType::i64)(in, 0, out, 3, nullptr);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(out[i], a[i] * b[i]);
  });
}

TEST(VectorOps, RunBlockGivesTheSameOnAnyNumberOfThreads) {
  const BlockTable table = blocks();
  const std::int64_t n = 100001;
  Unaligned<float> x(n), one(n), other(n);
  testing::fill_random(x.data(), n, -5, 5);
  const void* in[] = {x.data()};
  {
    ThreadScope threads(1);
    run_block(*table.find("tanh"), BlockType::f32, in, 0, one.data(), n);
  }
  for (int count : {2, 3}) {
    ThreadScope threads(count);
    run_block(*table.find("tanh"), BlockType::f32, in, 0, other.data(), n);
    EXPECT_EQ(std::memcmp(one.data(), other.data(), sizeof(float) * n), 0);
  }
  EXPECT_TRUE(other.intact());
}

TEST(VectorOps, WorksInPlace) {
  const BlockTable table = blocks();
  std::vector<float> x(37, 2.0f), y(37, 3.0f);
  const void* in[] = {x.data(), y.data()};
  table.find("mul")->of(BlockType::f32)(in, 0, x.data(), 37, nullptr);
  for (float v : x) EXPECT_EQ(v, 6.0f);
}

TEST(VectorOps, AFunctionMissingForALaneIsRefused) {
  const BlockTable table = blocks();
  std::int64_t x = 1;
  const void* in[] = {&x};
  EXPECT_THROW(run_block(*table.find("exp"), BlockType::i64, in, 0, &x, 1), Error);
  EXPECT_EQ(table.find("no_such_function"), nullptr);
}

TEST(VectorOps, ANameIsAddedOnce) {
  BlockTable table = blocks();
  EXPECT_THROW(table.add(*table.find("add")), Error);
}

}  // namespace
}  // namespace starling::kernels
