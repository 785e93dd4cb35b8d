#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "kernels/simd_testing.h"
#include "starling/kernels/cpu/simd/vector_ops.h"

namespace starling::kernels {
namespace {

using testing::for_each_target;
using testing::ulps;

double logistic(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double times(double x, double f) { return f == 0 ? 0 : x * f; }

// A function of one float: what it is in double, what its parameters are, how far its result may be off in units in the
// last place, and below which distance that does not matter.
struct Function {
  const char* name;
  double (*exact)(double);
  std::vector<double> params = {};
  double units = 4;
  double absolute = 0;
};

// Products with a factor that vanished before the product does.
constexpr double kDenormal = 1e-40;

const std::vector<Function>& functions() {
  static const std::vector<Function> kFunctions = {
      {"neg", [](double x) { return -x; }},
      {"abs", [](double x) { return std::abs(x); }},
      {"sign", [](double x) { return x > 0   ? 1.0
                                     : x < 0 ? -1.0
                                             : x; }},
      {"square", [](double x) { return x * x; }},
      {"reciprocal", [](double x) { return 1 / x; }},
      {"sqrt", std::sqrt},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"exp", std::exp},
      {"expm1", std::expm1},
      {"log", std::log},
      {"log1p", std::log1p},
      {"log2", std::log2},
      {"sin", std::sin},
      {"cos", std::cos},
      {"tan", std::tan},
      {"asin", std::asin},
      {"acos", std::acos},
      {"atan", std::atan},
      {"sinh", std::sinh},
      {"cosh", std::cosh},
      {"tanh", std::tanh},
      {"erf", std::erf},
      {"sigmoid", logistic},
      {"relu", [](double x) { return x < 0 ? 0.0 : x; }},
      {"leaky_relu", [](double x) { return x < 0 ? 0.25 * x : x; }, {0.25}},
      {"elu", [](double x) { return x < 0 ? 0.5 * std::expm1(x) : x; }, {0.5}},
      {"selu", [](double x) { return 1.0507009873554804934 * (x < 0 ? 1.6732632423543772848 * std::expm1(x) : x); }},
      // The share of the normal distribution is only as precise as it shows beside 1.
      {"gelu", [](double x) { return times(x, 0.5 * std::erfc(-x / std::numbers::sqrt2)); }, {}, 4, 2e-7},
      {"gelu_tanh",
       [](double x) { return times(x, logistic(1.5957691216057308 * x * (1 + 0.044715 * x * x))); },
       {},
       // The argument's own rounding grows with it.
       32,
       1e-9},
      {"silu", [](double x) { return times(x, logistic(x)); }, {}, 4, kDenormal},
      {"softplus", softplus},
      {"mish", [](double x) { return times(x, std::tanh(softplus(x))); }, {}, 4, kDenormal},
      {"hardswish", [](double x) { return x <= -3 ? 0.0 : x * (std::min(x, 3.0) / 6 + 0.5); }, {}, 4, 2e-7},
      {"floor", std::floor},
      {"ceil", std::ceil},
      {"round", std::nearbyint},
      {"trunc", std::trunc},
      {"clamp", [](double x) { return x < -0.5 ? -0.5
                                      : x > 2  ? 2.0
                                               : x; }, {-0.5, 2}}};
  return kFunctions;
}

template <class T>
constexpr BlockType kLaneOf = std::is_same_v<T, float> ? BlockType::f32 : BlockType::f64;

// In f64 the C library is no more precise than we are.
template <class T>
void expect_close(const Function& f, T x, T got) {
  const double want = f.exact(static_cast<double>(x));
  const double off = std::abs(static_cast<double>(got) - want);
  const double slack = sizeof(T) == 4 ? f.absolute : f.absolute * 1e-8;
  EXPECT_TRUE(ulps<T>(got, want) <= f.units || off <= slack)
      << f.name << "(" << static_cast<double>(x) << ") = " << static_cast<double>(got) << ", want " << want << ", "
      << ulps<T>(got, want) << " ulp off";
  if (want == 0 && x == 0 && got == 0) {
    EXPECT_EQ(std::signbit(got), std::signbit(want)) << f.name << " of " << x;
  }
}

template <class T>
std::vector<T> edge_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {Limits::quiet_NaN()};
  for (const double magnitude : {0.0,
                                 static_cast<double>(Limits::infinity()),
                                 static_cast<double>(Limits::denorm_min()),
                                 static_cast<double>(Limits::denorm_min()) * 1000,
                                 static_cast<double>(Limits::min()),
                                 static_cast<double>(Limits::max()),
                                 static_cast<double>(Limits::epsilon()),
                                 1e-20,
                                 1e-4,
                                 0.5,
                                 1.0,
                                 1.5,
                                 2.5,
                                 3.0,
                                 10.0,
                                 40.0,
                                 87.5,
                                 88.7,
                                 89.0,
                                 104.0,
                                 700.0,
                                 745.2,
                                 8191.5,
                                 8193.0,
                                 1e6,
                                 1e10,
                                 1e30}) {
    values.push_back(static_cast<T>(magnitude));
    values.push_back(static_cast<T>(-magnitude));
  }
  return values;
}

template <class T>
void expect_edges() {
  BlockTable table;
  register_cpu_blocks(table);
  const std::vector<T> x = edge_values<T>();
  for (const Function& f : functions()) {
    const BlockEntry* entry = table.find(f.name);
    ASSERT_NE(entry, nullptr) << f.name;
    std::vector<T> y(x.size());
    const void* in[] = {x.data()};
    entry->of(kLaneOf<T>)(in, 0, y.data(), static_cast<std::int64_t>(x.size()), f.params.data());
    for (std::size_t i = 0; i < x.size(); ++i) expect_close(f, x[i], y[i]);
  }
}

TEST(EdgeValues, OfFloatsAreTheCLibrarys) {
  for_each_target([] { expect_edges<float>(); });
}
TEST(EdgeValues, OfDoublesAreTheCLibrarys) {
  for_each_target([] { expect_edges<double>(); });
}

template <class T>
void expect_sweep(double low, double high) {
  BlockTable table;
  register_cpu_blocks(table);
  constexpr std::int64_t kCount = 20001;
  std::vector<T> x(kCount), y(kCount);
  testing::fill_random(x.data(), kCount, low, high);
  for (const Function& f : functions()) {
    const void* in[] = {x.data()};
    table.find(f.name)->of(kLaneOf<T>)(in, 0, y.data(), kCount, f.params.data());
    for (std::size_t i = 0; i < x.size() && !::testing::Test::HasFailure(); ++i) expect_close(f, x[i], y[i]);
  }
}

TEST(EdgeValues, BetweenThemFunctionsStayWithinAFewUlps) {
  for_each_target([] {
    for (const double reach : {1e-3, 1.0, 6.0, 100.0}) expect_sweep<float>(-reach, reach);
    for (const double reach : {1e-3, 1.0, 6.0}) expect_sweep<double>(-reach, reach);
  });
}

// The limits of two arguments, every pair of edge values against the C library.
template <class T>
void expect_pairs(const char* name, double (*exact)(double, double), double units) {
  BlockTable table;
  register_cpu_blocks(table);
  const std::vector<T> values = edge_values<T>();
  for (const T b : values) {
    std::vector<T> y(values.size());
    const void* in[] = {values.data(), &b};
    table.find(name)->of(kLaneOf<T>)(in, 2, y.data(), static_cast<std::int64_t>(values.size()), nullptr);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double want = exact(static_cast<double>(values[i]), static_cast<double>(b));
      EXPECT_LE(ulps<T>(y[i], want), units)
          << name << "(" << values[i] << ", " << b << ") = " << y[i] << ", want " << want;
    }
  }
}

double mod(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

TEST(EdgeValues, OfTwoArgumentsAreTheCLibrarys) {
  for_each_target([] {
    // Without one multiply-add instruction, powers near overflow lose what the product of the exponent rounds away.
    expect_pairs<float>("pow", std::pow, 200);
    expect_pairs<double>("pow", std::pow, 2000);
    expect_pairs<float>("atan2", std::atan2, 4);
    expect_pairs<double>("atan2", std::atan2, 4);
    expect_pairs<float>("fmod", std::fmod, 0);
    expect_pairs<double>("fmod", std::fmod, 0);
    expect_pairs<float>("mod", mod, 0.5);
    expect_pairs<double>("mod", mod, 0);
  });
}

// Comparisons and connectives of every pair of edge values, against those of the language.
template <class T>
void expect_truths(const char* name, bool (*exact)(T, T)) {
  BlockTable table;
  register_cpu_blocks(table);
  const std::vector<T> values = edge_values<T>();
  for (const T b : values) {
    std::vector<std::uint8_t> y(values.size());
    const void* in[] = {values.data(), &b};
    table.find(name)->of(kLaneOf<T>)(in, 2, y.data(), static_cast<std::int64_t>(values.size()), nullptr);
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(y[i], exact(values[i], b) ? 1 : 0) << name << "(" << values[i] << ", " << b << ")";
  }
}

template <class T>
void expect_all_truths() {
  expect_truths<T>("equal", [](T a, T b) { return a == b; });
  expect_truths<T>("not_equal", [](T a, T b) { return a != b; });
  expect_truths<T>("less", [](T a, T b) { return a < b; });
  expect_truths<T>("less_equal", [](T a, T b) { return a <= b; });
  expect_truths<T>("greater", [](T a, T b) { return a > b; });
  expect_truths<T>("greater_equal", [](T a, T b) { return a >= b; });
  expect_truths<T>("logical_and", [](T a, T b) { return a != 0 && b != 0; });
  expect_truths<T>("logical_or", [](T a, T b) { return a != 0 || b != 0; });
  expect_truths<T>("logical_xor", [](T a, T b) { return (a != 0) != (b != 0); });
}

TEST(EdgeValues, AreComparedAsTheLanguageDoes) {
  for_each_target([] {
    expect_all_truths<float>();
    expect_all_truths<double>();
  });
}

TEST(EdgeValues, FloatTestsTellNanAndInfinity) {
  BlockTable table;
  register_cpu_blocks(table);
  const std::vector<float> x = edge_values<float>();
  const void* in[] = {x.data()};
  const auto run = [&](const char* name) {
    std::vector<std::uint8_t> y(x.size());
    table.find(name)->of(BlockType::f32)(in, 0, y.data(), static_cast<std::int64_t>(x.size()), nullptr);
    return y;
  };
  const auto nan = run("isnan"), inf = run("isinf"), finite = run("isfinite"), zero = run("logical_not");
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(nan[i], std::isnan(x[i]));
    EXPECT_EQ(inf[i], std::isinf(x[i]));
    EXPECT_EQ(finite[i], std::isfinite(x[i]));
    EXPECT_EQ(zero[i], x[i] == 0);
  }
}

}  // namespace
}  // namespace starling::kernels
