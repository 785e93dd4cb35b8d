#include "starling/kernels/cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/simd_testing.h"
#include "starling/base/error.h"
#include "starling/kernels/cpu/reduce/column_sum.h"

namespace starling::kernels {
namespace {

// Memory with a guard behind it: a kernel that writes too far is caught.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count, T fill = T(0))
      : count_(count), data_(static_cast<std::size_t>(count) + kGuard, fill) {
    for (int i = 0; i < kGuard; ++i) data_[static_cast<std::size_t>(count) + i] = T(12345);
  }
  T* data() { return data_.data(); }
  const T* data() const { return data_.data(); }
  T& operator[](std::int64_t i) { return data_[static_cast<std::size_t>(i)]; }
  const T& operator[](std::int64_t i) const { return data_[static_cast<std::size_t>(i)]; }
  std::int64_t size() const { return count_; }
  bool intact() const {
    for (int i = 0; i < kGuard; ++i) {
      if (data_[static_cast<std::size_t>(count_) + i] != T(12345)) return false;
    }
    return true;
  }

 private:
  static constexpr int kGuard = 64;
  std::int64_t count_;
  std::vector<T> data_;
};

template <class T>
Guarded<T> random_values(std::int64_t count, std::uint32_t seed) {
  Guarded<T> values(count);
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<T>(uniform(engine));
  return values;
}

struct alignas(64) Line {
  char bytes[64];
};

// Scratch of exactly the planned size, so that sanitizers see any access beyond it.
std::vector<Line> scratch_for(const GemmPlan& plan) { return std::vector<Line>((gemm_scratch_bytes(plan) + 63) / 64); }

std::int64_t lda_of(const GemmShape& s) { return s.lda ? s.lda : (s.trans_a ? s.m : s.k); }
std::int64_t ldb_of(const GemmShape& s) { return s.ldb ? s.ldb : (s.trans_b ? s.k : s.n); }
std::int64_t ldc_of(const GemmShape& s) { return s.ldc ? s.ldc : s.n; }
std::int64_t a_size(const GemmShape& s) { return lda_of(s) * (s.trans_a ? s.k : s.m); }
std::int64_t b_size(const GemmShape& s) { return ldb_of(s) * (s.trans_b ? s.n : s.k); }
std::int64_t c_size(const GemmShape& s) { return ldc_of(s) * s.m; }

template <class T>
double naive(const GemmShape& s, const Guarded<T>& a, const Guarded<T>& b, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t p = 0; p < s.k; ++p) {
    const double x = s.trans_a ? a[p * lda_of(s) + i] : a[i * lda_of(s) + p];
    const double y = s.trans_b ? b[j * ldb_of(s) + p] : b[p * ldb_of(s) + j];
    sum += x * y;
  }
  return sum;
}

// Naive product of the operands that every test of a form draws, random_values() of seeds 1 and 2: summed once for all
// kernels, numbers of threads and instruction sets that it is compared with.
template <class T>
const std::vector<double>& naive_product(const GemmShape& s, const Guarded<T>& a, const Guarded<T>& b) {
  static std::map<std::array<std::int64_t, 7>, std::vector<double>> made;
  auto& all = made[{s.m, s.n, s.k, s.trans_a, s.trans_b, lda_of(s), ldb_of(s)}];
  if (all.empty()) {
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) all.push_back(naive(s, a, b, i, j));
    }
  }
  return all;
}

double activate(GemmActivation f, double x) {
  if (f == GemmActivation::kRelu) return x > 0 ? x : 0;
  if (f == GemmActivation::kTanh) return std::tanh(x);
  if (f == GemmActivation::kSigmoid) return 1 / (1 + std::exp(-x));
  return x;
}

double derivative(GemmActivation f, double y) {
  if (f == GemmActivation::kRelu) return y > 0 ? 1 : 0;
  if (f == GemmActivation::kTanh) return 1 - y * y;
  if (f == GemmActivation::kSigmoid) return y * (1 - y);
  return 1;
}

std::string name_of(const GemmShape& s, int threads) {
  return fmt::format("{}x{}x{} {}{} ld {} {} {} threads {}", s.m, s.n, s.k, s.trans_a ? 'T' : 'N',
                     s.trans_b ? 'T' : 'N', s.lda, s.ldb, s.ldc, threads);
}

// Every element of the product against the naive one; padding between rows of C must stay as it was.
template <class T, class Multiply>
void expect_product(const GemmShape& s, int threads, bool accumulate, double tolerance, const Multiply& multiply) {
  SCOPED_TRACE(name_of(s, threads));
  const auto a = random_values<T>(a_size(s), 1);
  const auto b = random_values<T>(b_size(s), 2);
  const auto before = random_values<T>(c_size(s), 3);
  auto c = before;
  multiply(a.data(), b.data(), c.data());
  ASSERT_TRUE(c.intact());
  const auto& product = naive_product(s, a, b);
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < ldc_of(s); ++j) {
      const std::int64_t at = i * ldc_of(s) + j;
      if (j >= s.n) {
        ASSERT_EQ(c[at], before[at]) << "padding at " << i << ", " << j;
        continue;
      }
      const double expected = product[static_cast<std::size_t>(i * s.n + j)] + (accumulate ? before[at] : 0);
      ASSERT_NEAR(c[at], expected, tolerance * (1 + std::sqrt(static_cast<double>(s.k)))) << i << ", " << j;
    }
  }
}

void expect_f32(const GemmShape& s, int threads, bool accumulate) {
  expect_product<float>(s, threads, accumulate, 2e-6, [&](const float* a, const float* b, float* c) {
    const GemmPlan plan = plan_gemm(s, threads);
    auto scratch = scratch_for(plan);
    gemm(plan, a, b, c, {.accumulate = accumulate}, scratch.data());
  });
}

void expect_f64(const GemmShape& s, int threads, bool accumulate) {
  expect_product<double>(s, threads, accumulate, 1e-14, [&](const double* a, const double* b, double* c) {
    const GemmPlan plan = plan_gemm(s, threads, sizeof(double));
    auto scratch = scratch_for(plan);
    gemm(plan, a, b, c, accumulate, scratch.data());
  });
}

template <class F>
void for_all_forms(const std::vector<std::array<std::int64_t, 3>>& sizes, const F& f) {
  for (const auto& [m, n, k] : sizes) {
    for (int form = 0; form < 4; ++form) {
      f(GemmShape{.m = m, .n = n, .k = k, .trans_a = (form & 1) != 0, .trans_b = (form & 2) != 0});
    }
  }
}

const std::vector<std::array<std::int64_t, 3>> kSizes = {
    {1, 1, 1},     {2, 3, 4},     {8, 8, 8},   {1, 100, 37}, {37, 1, 20},  {3, 70, 65},   {70, 3, 65},
    {5, 17, 9},    {16, 16, 16},  {17, 33, 5}, {64, 10, 50}, {10, 64, 33}, {63, 65, 129}, {64, 100, 64},
    {50, 64, 500}, {20, 576, 25}, {25, 48, 1}, {6, 64, 100}, {7, 128, 30}, {49, 47, 51},  {100, 200, 130}};

TEST(Gemm, MultipliesInAllFourForms) {
  for_all_forms(kSizes, [](const GemmShape& s) {
    for (int threads : {1, 2, 3}) expect_f32(s, threads, false);
  });
}

TEST(Gemm, AddsToWhatIsThere) {
  for_all_forms(kSizes, [](const GemmShape& s) {
    for (int threads : {1, 2}) expect_f32(s, threads, true);
  });
}

TEST(Gemm, CutsLongSumsIntoBlocks) {
  for_all_forms({{20, 70, 1025}, {70, 20, 2100}, {3, 40, 3000}}, [](const GemmShape& s) {
    for (int threads : {1, 2, 3}) expect_f32(s, threads, threads == 2);
  });
}

TEST(Gemm, LeavesThePaddingOfStridedMatricesAlone) {
  for_all_forms({{9, 19, 11}, {33, 40, 70}, {2, 30, 20}}, [](GemmShape s) {
    s.lda = lda_of(s) + 3;
    s.ldb = ldb_of(s) + 5;
    s.ldc = s.n + 7;
    expect_f32(s, 2, false);
    expect_f32(s, 1, true);
    expect_f64(s, 2, true);
  });
}

TEST(Gemm, MultipliesDoubles) {
  for_all_forms(kSizes, [](const GemmShape& s) {
    for (int threads : {1, 2, 3}) expect_f64(s, threads, threads == 2);
  });
  for_all_forms({{20, 70, 1025}}, [](const GemmShape& s) { expect_f64(s, 2, false); });
}

TEST(Gemm, TakesEmptySizes) {
  for_all_forms({{0, 5, 3}, {5, 0, 3}, {5, 7, 0}, {0, 0, 0}, {2, 40, 0}}, [](const GemmShape& s) {
    expect_f32(s, 2, false);
    expect_f32(s, 1, true);
    expect_f64(s, 1, false);
  });
}

TEST(Gemm, RefusesNegativeSizes) {
  EXPECT_THROW(plan_gemm({.m = -1, .n = 2, .k = 3}, 1), Error);
  EXPECT_THROW(plan_gemm({.m = 1, .n = 2, .k = 3}, 0), Error);
}

void expect_epilogue(const GemmShape& s, int threads, GemmActivation f, GemmActivation df, bool accumulate) {
  SCOPED_TRACE(name_of(s, threads));
  const auto a = random_values<float>(a_size(s), 1);
  const auto b = random_values<float>(b_size(s), 2);
  const auto before = random_values<float>(c_size(s), 3);
  const auto bias_n = random_values<float>(s.n, 4);
  const auto bias_m = random_values<float>(s.m, 5);
  const auto saved = random_values<float>(s.m * (s.n + 2), 6);
  auto c = before;
  const GemmPlan plan = plan_gemm(s, threads);
  auto scratch = scratch_for(plan);
  gemm(plan, a.data(), b.data(), c.data(),
       {.accumulate = accumulate,
        .bias_n = bias_n.data(),
        .bias_m = bias_m.data(),
        .activation = f,
        .derivative = df,
        .saved_output = saved.data(),
        .ld_saved = s.n + 2},
       scratch.data());
  ASSERT_TRUE(c.intact());
  const auto& product = naive_product(s, a, b);
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      const std::int64_t at = i * s.n + j;
      const double x = product[static_cast<std::size_t>(at)] + (accumulate ? before[at] : 0) + bias_n[j] + bias_m[i];
      const double expected = activate(f, x) * derivative(df, saved[i * (s.n + 2) + j]);
      ASSERT_NEAR(c[at], expected, 1e-4) << i << ", " << j;
    }
  }
}

TEST(Gemm, AppliesBiasActivationAndDerivative) {
  const GemmActivation all[] = {GemmActivation::kNone, GemmActivation::kRelu, GemmActivation::kTanh,
                                GemmActivation::kSigmoid};
  for_all_forms({{64, 50, 33}, {7, 100, 20}, {2, 33, 40}, {50, 70, 1100}, {20, 64, 1030}}, [&](const GemmShape& s) {
    for (GemmActivation f : all) expect_epilogue(s, 2, f, GemmActivation::kNone, false);
    for (GemmActivation df : all) expect_epilogue(s, 1, GemmActivation::kNone, df, true);
  });
}

TEST(Gemm, KeepsNanThroughRelu) {
  const float a[] = {std::nanf(""), -1};
  const float b[] = {1};
  float c[2] = {};
  const GemmShape s{.m = 2, .n = 1, .k = 1};
  auto scratch = scratch_for(plan_gemm(s, 1));
  gemm(s, a, b, c, {.activation = GemmActivation::kRelu}, scratch.data(), 1);
  EXPECT_TRUE(std::isnan(c[0]));
  EXPECT_EQ(c[1], 0);
}

void expect_sgd(const GemmShape& s, int threads, bool with_velocity) {
  SCOPED_TRACE(name_of(s, threads));
  const auto a = random_values<float>(a_size(s), 1);
  const auto b = random_values<float>(b_size(s), 2);
  const auto w0 = random_values<float>(c_size(s), 3);
  const auto v0 = random_values<float>(c_size(s), 4);
  auto w = w0;
  auto v = v0;
  const float rate = 0.1F;
  const GemmSgd sgd{.weights = w.data(),
                    .velocity = with_velocity ? v.data() : nullptr,
                    .learning_rate = &rate,
                    .momentum = 0.9F,
                    .weight_decay = 0.01F};
  const GemmPlan plan = plan_gemm(s, threads);
  auto scratch = scratch_for(plan);
  gemm(plan, a.data(), b.data(), nullptr, {.sgd = &sgd}, scratch.data());
  ASSERT_TRUE(w.intact() && v.intact());
  const auto& product = naive_product(s, a, b);
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      const std::int64_t at = i * s.n + j;
      double step = product[static_cast<std::size_t>(at)] + 0.01 * w0[at];
      if (with_velocity) step += 0.9 * v0[at];
      ASSERT_NEAR(w[at], w0[at] - 0.1 * step, 2e-5);
      ASSERT_NEAR(v[at], with_velocity ? step : v0[at], 1e-4);
    }
  }
}

TEST(Gemm, UpdatesWeightsInsteadOfStoringTheGradient) {
  for_all_forms({{50, 70, 64}, {10, 33, 20}, {3, 40, 7}, {20, 70, 1100}, {20, 128, 1100}}, [](const GemmShape& s) {
    for (int threads : {1, 2}) expect_sgd(s, threads, threads == 2);
    expect_sgd(s, 1, true);
  });
}

TEST(Gemm, RefusesToAccumulateAndUpdateAtOnce) {
  const GemmSgd sgd;
  EXPECT_THROW(
      gemm(GemmShape{.m = 1, .n = 1, .k = 1}, nullptr, nullptr, nullptr, {.accumulate = true, .sgd = &sgd}, nullptr, 1),
      Error);
}

TEST(Gemm, WorksOnEveryInstructionSet) {
  starling::testing::for_each_target([] {
    for_all_forms(kSizes, [](const GemmShape& s) {
      expect_f32(s, 2, true);
      expect_f64(s, 2, false);
    });
    for_all_forms({{7, 33, 20}, {64, 50, 33}, {20, 64, 1030}}, [](const GemmShape& s) {
      expect_epilogue(s, 1, GemmActivation::kTanh, GemmActivation::kSigmoid, true);
      expect_epilogue(s, 1, GemmActivation::kRelu, GemmActivation::kNone, false);
      expect_sgd(s, 1, true);
    });
  });
}

TEST(Gemm, FindsRowsOfTheRightOperandThroughATable) {
  // Overlapping windows of one line: row k of B begins at element table[k].
  const GemmShape shapes[] = {{.m = 9, .n = 37, .k = 20, .b_table = true},
                              {.m = 9, .n = 64, .k = 1500, .b_table = true},
                              {.m = 800, .n = 70, .k = 200, .b_table = true},
                              {.m = 9, .n = 20, .k = 37, .trans_b = true, .b_table = true}};
  for (const GemmShape& s : shapes) {
    const std::int64_t rows = s.trans_b ? s.n : s.k;
    const std::int64_t length = s.trans_b ? s.k : s.n;
    const auto a = random_values<float>(s.m * s.k, 1);
    const auto line = random_values<float>(2 * rows + length, 2);
    Guarded<float> b(rows * length);
    std::vector<std::int64_t> table;
    for (std::int64_t r = 0; r < rows; ++r) {
      table.push_back(r % 2 == 0 ? 2 * r : r);
      std::copy_n(line.data() + table.back(), length, b.data() + r * length);
    }
    const GemmPlan plan = plan_gemm(s, 2);
    auto scratch = scratch_for(plan);
    Guarded<float> c(s.m * s.n);
    gemm(plan, a.data(), line.data(), c.data(), {}, scratch.data(), table.data());
    ASSERT_TRUE(c.intact());
    for (std::int64_t i = 0; i < s.m * s.n; ++i) ASSERT_NEAR(c[i], naive(s, a, b, i / s.n, i % s.n), 1e-4);
  }
}

TEST(Gemm, GivesTheSameBitsEveryTime) {
  for_all_forms({{64, 512, 784}, {130, 70, 1500}}, [](const GemmShape& s) {
    const auto a = random_values<float>(a_size(s), 1);
    const auto b = random_values<float>(b_size(s), 2);
    for (int threads : {1, 2, 3}) {
      const GemmPlan plan = plan_gemm(s, threads);
      auto scratch = scratch_for(plan);
      Guarded<float> first(c_size(s));
      gemm(plan, a.data(), b.data(), first.data(), {}, scratch.data());
      for (int again = 0; again < 5; ++again) {
        Guarded<float> c(c_size(s), 7);
        gemm(plan, a.data(), b.data(), c.data(), {}, scratch.data());
        ASSERT_EQ(std::memcmp(first.data(), c.data(), static_cast<std::size_t>(c_size(s)) * 4), 0)
            << name_of(s, threads);
      }
    }
  });
}

TEST(ColumnSum, AddsTheRows) {
  for (std::int64_t rows : {0, 1, 3, 64, 65}) {
    for (std::int64_t cols : {1, 10, 16, 63, 500, 1000}) {
      for (int threads : {1, 2, 3}) {
        const auto x = random_values<float>(rows * (cols + 1), 1);
        for (bool accumulate : {false, true}) {
          Guarded<float> sum(cols, 2);
          column_sum(x.data(), rows, cols, cols + 1, sum.data(), accumulate, threads);
          ASSERT_TRUE(sum.intact());
          for (std::int64_t j = 0; j < cols; ++j) {
            double expected = accumulate ? 2 : 0;
            for (std::int64_t i = 0; i < rows; ++i) expected += x[i * (cols + 1) + j];
            ASSERT_NEAR(sum[j], expected, 1e-5) << rows << " x " << cols;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace starling::kernels
