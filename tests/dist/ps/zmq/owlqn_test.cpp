// OWL-QN over servers, held against a plain implementation whose inverse Hessian is a matrix.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "dist/ps/procedure_testing.h"

namespace starling::dist::ps {
namespace {

using Vector = std::vector<double>;
constexpr std::size_t kSize = 12, kRows = 30;
constexpr double kPenalty = 0.15;

double inner(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// Least squares with few true weights, and rows that are alike.
struct Lasso {
  std::vector<Vector> rows{kRows, Vector(kSize)};
  Vector targets = Vector(kRows);
  Lasso() {
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t i = 0; i < kSize; ++i)
        rows[r][i] =
            static_cast<double>((r * 31 + i * 17 + r * i * 5) % 29) / 14 - 1 + (i > 0 ? 0.5 * rows[r][i - 1] : 0);
      targets[r] = 2 * rows[r][1] - 1.5 * rows[r][6] + 0.1 * std::sin(static_cast<double>(r));
    }
  }
  double operator()(int portion, const double* x, double* g) const {
    double loss = 0;
    for (std::size_t r = portion == 0 ? 0 : kRows / 2; r < (portion == 0 ? kRows / 2 : kRows); ++r) {
      double error = -targets[r];
      for (std::size_t i = 0; i < kSize; ++i) error += rows[r][i] * x[i];
      loss += error * error / (2 * kRows);
      for (std::size_t i = 0; i < kSize; ++i) g[i] += error * rows[r][i] / kRows;
    }
    return loss;
  }
  double whole(const Vector& x, Vector& g) const {
    g.assign(kSize, 0);
    return (*this)(0, x.data(), g.data()) + (*this)(1, x.data(), g.data());
  }
};

// Andrew and Gao 2007, read off the paper; H of the last pairs by its recursion, as a matrix.
class PlainOwlqn {
 public:
  PlainOwlqn(const Lasso& lasso, std::size_t history) : lasso_(lasso), history_(history) {
    loss_ = lasso.whole(x, gradient_) + kPenalty * norm1(x);
  }
  void iterate() {
    const Vector steep = steepest();
    Vector d = times_h(steep);
    for (std::size_t i = 0; i < kSize; ++i) d[i] = d[i] * steep[i] > 0 ? d[i] : 0;
    double t = pairs_.empty() && first_ ? std::min(1.0, 1 / norm1(steep)) : 1;
    for (;; t /= 2) {
      Vector to(kSize), g;
      for (std::size_t i = 0; i < kSize; ++i) {
        const double orthant = x[i] != 0 ? sign(x[i]) : sign(steep[i]);
        to[i] = x[i] + t * d[i];
        if (sign(to[i]) != orthant) to[i] = 0;
      }
      const double loss = lasso_.whole(to, g) + kPenalty * norm1(to);
      Vector s(kSize), y(kSize);
      for (std::size_t i = 0; i < kSize; ++i) s[i] = to[i] - x[i], y[i] = g[i] - gradient_[i];
      if (loss > loss_ - 1e-4 * inner(steep, s)) continue;
      if (inner(s, y) > 1e-10) pairs_.emplace_back(s, y);
      if (pairs_.size() > history_) pairs_.pop_front();
      x = to, gradient_ = g, loss_ = loss, first_ = false;
      return;
    }
  }
  Vector x = Vector(kSize, 0);

 private:
  static double norm1(const Vector& v) {
    double sum = 0;
    for (const double one : v) sum += std::abs(one);
    return sum;
  }
  Vector steepest() const {
    Vector v(kSize);
    for (std::size_t i = 0; i < kSize; ++i) {
      const double left = gradient_[i] - kPenalty, right = gradient_[i] + kPenalty;
      if (x[i] != 0)
        v[i] = -(gradient_[i] + kPenalty * sign(x[i]));
      else
        v[i] = left > 0 ? -left : right < 0 ? -right : 0;
    }
    return v;
  }
  // H := (1 - ρ s yᵀ) H (1 - ρ y sᵀ) + ρ s sᵀ, from the scale of the newest pair on.
  Vector times_h(const Vector& v) const {
    std::vector<Vector> h(kSize, Vector(kSize, 0));
    const double scale = pairs_.empty() ? 1
                                        : inner(pairs_.back().first, pairs_.back().second) /
                                              inner(pairs_.back().second, pairs_.back().second);
    for (std::size_t i = 0; i < kSize; ++i) h[i][i] = scale;
    for (const auto& [s, y] : pairs_) {
      const double rho = 1 / inner(s, y);
      Vector hy(kSize);
      for (std::size_t i = 0; i < kSize; ++i) hy[i] = inner(h[i], y);
      const double yhy = inner(y, hy);
      for (std::size_t i = 0; i < kSize; ++i) {
        for (std::size_t j = 0; j < kSize; ++j)
          h[i][j] += rho * (s[i] * s[j] * (1 + rho * yhy) - hy[i] * s[j] - s[i] * hy[j]);
      }
    }
    Vector made(kSize);
    for (std::size_t i = 0; i < kSize; ++i) made[i] = inner(h[i], v);
    return made;
  }

  const Lasso& lasso_;
  std::size_t history_;
  std::deque<std::pair<Vector, Vector>> pairs_;
  Vector gradient_;
  double loss_ = 0;
  bool first_ = true;
};

constexpr CoordinatorOptions kOwlqn{
    .procedure = CoordinatorOptions::Procedure::owlqn, .l1 = kPenalty, .history = 4, .change_tolerance = 1e-14};

TEST(PsOwlqn, MakesTheIteratesOfAPlainImplementation) {
  const Lasso lasso;
  PlainOwlqn plain(lasso, 4);
  for (int iterations = 1; iterations <= 10; ++iterations) {
    plain.iterate();
    const Procedure ours = run_procedure(Vector(kSize, 0), iterations, kOwlqn, lasso);
    for (std::size_t i = 0; i < kSize; ++i)
      ASSERT_NEAR(ours.weights[i], plain.x[i], 1e-9) << "iteration " << iterations;
  }
}

TEST(PsOwlqn, EndsWithExactZerosWhereTheSlopeIsWithinThePenalty) {
  const Lasso lasso;
  const Procedure ours = run_procedure(Vector(kSize, 0), 60, kOwlqn, lasso);
  Vector g;
  lasso.whole(ours.weights, g);
  std::int64_t zeros = 0;
  for (std::size_t i = 0; i < kSize; ++i) {
    const bool zero = ours.weights[i] == 0;
    zeros += zero ? 1 : 0;
    EXPECT_LE(zero ? std::abs(g[i]) - kPenalty : std::abs(g[i] + kPenalty * sign(ours.weights[i])), 1e-6) << i;
  }
  EXPECT_GE(zeros, 4);
  EXPECT_LT(zeros, static_cast<std::int64_t>(kSize));
  for (const double x : run_procedure(Vector(kSize, 0), 60, {}, lasso).weights)
    EXPECT_NE(x, 0) << "control: L-BFGS makes none";
}

TEST(PsOwlqn, RefusesAPenaltyThatNothingTakes) {
  EXPECT_THROW(run_procedure(Vector(kSize, 0), 1, {.l1 = 0.1}, Lasso()), Error);
}

}  // namespace
}  // namespace starling::dist::ps
