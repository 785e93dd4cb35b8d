#include <gtest/gtest.h>

#include "kernels/simd_testing.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/loss/cross_entropy.h"
#include "starling/kernels/cpu/norm/softmax.h"

namespace starling::kernels {
namespace {

using testing::fill_random;
using testing::for_each_target;
using testing::Unaligned;

template <class T>
std::vector<double> exact_log_softmax(const T* x, std::int64_t n) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t i = 0; i < n; ++i) max = std::max(max, static_cast<double>(x[i]));
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i]) - max);
  std::vector<double> y(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) y[static_cast<std::size_t>(i)] = static_cast<double>(x[i]) - max - std::log(sum);
  return y;
}

template <class T>
void expect_softmax(std::int64_t rows, std::int64_t n, double tolerance) {
  Unaligned<T> x(rows * n), dy(rows * n), p(rows * n), logp(rows * n), dx(rows * n), dlog(rows * n);
  fill_random(x.data(), x.size(), -20, 20, 1);
  fill_random(dy.data(), dy.size(), -1, 1, 2);
  softmax(x.data(), p.data(), rows, n);
  log_softmax(x.data(), logp.data(), rows, n);
  softmax_backward(dy.data(), p.data(), dx.data(), rows, n);
  log_softmax_backward(dy.data(), logp.data(), dlog.data(), rows, n);
  EXPECT_TRUE(p.intact() && logp.intact() && dx.intact() && dlog.intact());
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto want = exact_log_softmax(x.data() + r * n, n);
    double dot = 0, sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      dot += static_cast<double>(dy[r * n + i]) * std::exp(want[static_cast<std::size_t>(i)]);
      sum += static_cast<double>(dy[r * n + i]);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = r * n + i;
      const double logw = want[static_cast<std::size_t>(i)], w = std::exp(logw);
      ASSERT_NEAR(p[at], w, tolerance) << rows << " x " << n;
      ASSERT_NEAR(logp[at], logw, 40 * tolerance);
      ASSERT_NEAR(dx[at], w * (static_cast<double>(dy[at]) - dot), 10 * tolerance);
      ASSERT_NEAR(dlog[at], static_cast<double>(dy[at]) - w * sum, 100 * tolerance);
    }
  }
}

TEST(Softmax, AgreesWithDoubleOnRowsOfAnyLength) {
  for_each_target([] {
    for (const int threads : {1, 2, 3}) {
      ThreadScope scope(threads);
      for (const std::int64_t cols : {1, 2, 9, 10, 16, 17, 33, 1000}) {
        for (const std::int64_t rows : {0, 1, 5, 40}) {
          expect_softmax<float>(rows, cols, 1e-6);
          expect_softmax<double>(rows, cols, 1e-14);
        }
      }
    }
  });
}

TEST(Softmax, SurvivesHugeLogitsAndMaskedOnes) {
  const float inf = std::numeric_limits<float>::infinity();
  const float x[] = {1e30f, -1e30f, 0.0f, 2.0f, -inf, 1.0f, -inf, 88.0f, -200.0f};
  float y[9];
  softmax(x, y, 3, 3);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_NEAR(y[3], 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_EQ(y[4], 0.0f);
  EXPECT_EQ(y[6], 0.0f);
  EXPECT_EQ(y[7], 1.0f);
  EXPECT_EQ(y[8], 0.0f);
}

TEST(Softmax, ANanSpoilsItsRowOnly) {
  std::vector<float> x(40, 1.0f), y(40);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  softmax(x.data(), y.data(), 2, 20);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_TRUE(std::isnan(y[i]));
  for (std::size_t i = 20; i < 40; ++i) EXPECT_NEAR(y[i], 0.05f, 1e-7);
}

template <class T>
void expect_cross_entropy(std::int64_t rows, std::int64_t n, bool weighted, double tolerance) {
  Unaligned<T> x(rows * n), p(rows * n), from_p(rows * n), from_lse(rows * n), loss(rows), lse(rows), weights(rows);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(rows));
  fill_random(x.data(), x.size(), -8, 8, 1);
  fill_random(weights.data(), rows, 0, 2, 2);
  for (std::size_t r = 0; r < labels.size(); ++r) labels[r] = static_cast<std::int64_t>(r * 7) % n;
  CrossEntropyArgs<T> args{.logits = x.data(),
                           .labels = labels.data(),
                           .row_weights = weighted ? weights.data() : nullptr,
                           .rows = rows,
                           .cols = n,
                           .row_loss = loss.data(),
                           .probabilities = p.data(),
                           .log_sum_exp = lse.data()};
  const double total = cross_entropy(args);
  cross_entropy_backward(args, T{0.25}, from_p.data());
  args.probabilities = nullptr;
  cross_entropy_backward(args, T{0.25}, from_lse.data());
  double want_total = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto want = exact_log_softmax(x.data() + r * n, n);
    const std::int64_t label = labels[static_cast<std::size_t>(r)];
    const double weight = weighted ? static_cast<double>(weights[r]) : 1.0;
    const double row = -weight * want[static_cast<std::size_t>(label)];
    want_total += row;
    ASSERT_NEAR(loss[r], row, 50 * tolerance);
    for (std::int64_t i = 0; i < n; ++i) {
      const double d = (std::exp(want[static_cast<std::size_t>(i)]) - (i == label ? 1 : 0)) * 0.25 * weight;
      ASSERT_NEAR(from_p[r * n + i], d, tolerance);
      ASSERT_NEAR(from_lse[r * n + i], d, 10 * tolerance);
    }
  }
  EXPECT_NEAR(total, want_total, 50 * tolerance * static_cast<double>(rows));
}

TEST(CrossEntropy, AgreesWithDoubleForwardAndBackward) {
  for_each_target([] {
    for (const bool weighted : {false, true}) {
      for (const std::int64_t cols : {1, 10, 17, 1000}) {
        for (const std::int64_t rows : {0, 1, 64}) {
          expect_cross_entropy<float>(rows, cols, weighted, 1e-6);
          expect_cross_entropy<double>(rows, cols, weighted, 1e-14);
        }
      }
    }
  });
}

TEST(CrossEntropy, TotalDoesNotDependOnThreads) {
  const std::int64_t rows = 20000, cols = 10;
  std::vector<float> x(static_cast<std::size_t>(rows * cols));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(rows), 3);
  fill_random(x.data(), rows * cols, -3, 3);
  std::vector<double> totals;
  for (const int threads : {1, 2, 3}) {
    ThreadScope scope(threads);
    totals.push_back(cross_entropy<float>({.logits = x.data(), .labels = labels.data(), .rows = rows, .cols = cols}));
  }
  EXPECT_EQ(totals[0], totals[1]);
  EXPECT_EQ(totals[0], totals[2]);
}

TEST(CrossEntropy, RefusesLabelsOutOfRange) {
  const float x[] = {1, 2, 3, 4};
  for (const std::int64_t bad : {std::int64_t{2}, std::int64_t{-1}}) {
    const std::int64_t labels[] = {0, bad};
    EXPECT_THROW(cross_entropy<float>({.logits = x, .labels = labels, .rows = 2, .cols = 2}), Error);
  }
}

}  // namespace
}  // namespace starling::kernels
