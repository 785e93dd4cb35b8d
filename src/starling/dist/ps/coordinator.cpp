#include "starling/dist/ps/coordinator.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/base/error.h"
#include "starling/dist/ps/vectors.h"
#include "starling/optim/line_search.h"

namespace starling::dist::ps {
namespace {

using V = CoordinatorVectors;

constexpr double kLeastCurvature = 1e-10;
constexpr double kDecrease = 1e-4;  // owlqn: least decrease of the loss, as a share of the slope's prediction
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // slope of a point that overflows
constexpr double kConjugateSlope = 0.1;  // cg: directions are conjugate after exact searches only

}  // namespace

ProcedureCoordinator::ProcedureCoordinator(Client& client, Evaluate evaluate, const CoordinatorOptions& options)
    : client_(client), evaluate_(std::move(evaluate)), options_(options) {
  check(options.lr > 0 && options.history > 0 && options.evaluations > 0,
        "[sandblaster] expected a rate, a history and evaluations above 0, got {}, {} and {}", options.lr,
        options.history, options.evaluations);
  check(V::kPairs + 2 * options.history <= kMostVectors, "[sandblaster] expected a history of at most {}, got {}",
        (kMostVectors - V::kPairs) / 2, options.history);
  check(options.l1 >= 0 && (sparse() || options.l1 == 0), "[sandblaster] expected an l1 of 0 without owlqn, got {}",
        options.l1);
}

double ProcedureCoordinator::evaluate() {
  ++evaluations_;
  const double loss = evaluate_();
  return sparse() ? loss + options_.l1 * client_.sum_abs(V::kWeights) : loss;
}

// The loss at kFrom + t · kDirection, where the weights then are.
double ProcedureCoordinator::evaluate_at(double t) {
  client_.copy(V::kWeights, V::kFrom);
  client_.axpy(V::kWeights, t, V::kDirection);
  if (sparse()) client_.project_orthant(V::kWeights, V::kOrthant);
  return evaluate();
}

int ProcedureCoordinator::step_vector(int age) const {
  return V::kPairs + (newest_ - 1 - age + 2 * options_.history) % options_.history;
}

// Keeps the last step and the change of the gradient, unless the curvature along it is not positive.
void ProcedureCoordinator::remember() {
  client_.axpy(V::kBefore, -1, V::kGradient);  // -change
  const double curvature = -length_ * client_.dot(V::kDirection, V::kBefore);
  if (!(curvature > kLeastCurvature)) {
    ++pairs_refused_;
    return;
  }
  const int s = V::kPairs + newest_, y = s + options_.history;
  client_.copy(s, V::kDirection);
  client_.scale(s, length_);
  client_.copy(y, V::kBefore);
  client_.scale(y, -1);
  scale_ = curvature / client_.dot(y, y);
  newest_ = (newest_ + 1) % options_.history;
  kept_ = std::min(kept_ + 1, options_.history);
}

// Two-loop recursion over the pairs, newest first and back. With a penalty its slope takes the gradient's place, pairs
// are those of the loss without it, and a direction that leads up against it anywhere does not move there.
void ProcedureCoordinator::find_lbfgs_direction() {
  if (iterations_ > 0) remember();
  constexpr int q = V::kDirection;
  if (sparse()) find_steepest();
  client_.copy(q, sparse() ? V::kSteepest : V::kGradient);
  if (!sparse()) client_.scale(q, -1);
  std::vector<double> alpha(static_cast<std::size_t>(kept_)), inverse(alpha.size());
  for (int age = 0; age < kept_; ++age) {
    const auto k = static_cast<std::size_t>(age);
    inverse[k] = 1 / client_.dot(change_vector(age), step_vector(age));
    alpha[k] = client_.dot(step_vector(age), q) * inverse[k];
    client_.axpy(q, -alpha[k], change_vector(age));
  }
  client_.scale(q, scale_);
  for (int age = kept_ - 1; age >= 0; --age) {
    const auto k = static_cast<std::size_t>(age);
    client_.axpy(q, alpha[k] - client_.dot(change_vector(age), q) * inverse[k], step_vector(age));
  }
  if (sparse()) client_.project_orthant(q, V::kSteepest);
}

void ProcedureCoordinator::find_steepest() {
  client_.pseudo_gradient(V::kSteepest, options_.l1, V::kGradient);
  client_.scale(V::kSteepest, -1);
}

void ProcedureCoordinator::find_cg_direction() {
  double beta = 0;
  if (iterations_ > 0) {
    const double before = client_.dot(V::kBefore, V::kBefore);
    const double now = client_.dot(V::kGradient, V::kGradient), mixed = client_.dot(V::kGradient, V::kBefore);
    beta = before > 0 ? std::max(0.0, (now - mixed) / before) : 0;
  }
  client_.scale(V::kDirection, beta);
  client_.axpy(V::kDirection, -1, V::kGradient);
  if (!(client_.dot(V::kGradient, V::kDirection) < 0)) restart();
}

void ProcedureCoordinator::restart() {
  client_.copy(V::kDirection, V::kGradient);
  client_.scale(V::kDirection, -1);
}

void ProcedureCoordinator::find_direction() {
  if (keeps_pairs())
    find_lbfgs_direction();
  else
    find_cg_direction();
  client_.copy(V::kBefore, V::kGradient);
}

double ProcedureCoordinator::first_length() const {
  if (iterations_ > 0 && keeps_pairs()) return options_.lr;
  const double sum = client_.sum_abs(sparse() ? V::kSteepest : V::kGradient);
  return std::min(1.0, 1 / sum) * options_.lr;
}

// Moves along the direction; false: it does not lead down.
bool ProcedureCoordinator::search() {
  const double trial = first_length();
  const optim::LinePoint start{.loss = loss_, .slope = client_.dot(V::kGradient, V::kDirection)};
  if (!(start.slope < -options_.change_tolerance)) return false;
  client_.copy(V::kFrom, V::kWeights);
  double evaluated = 0;
  const auto at = [&](double t) {
    evaluated = t;
    const double loss = evaluate_at(t);
    if (!std::isfinite(loss)) return optim::LinePoint{.t = t, .loss = kInfinity, .slope = kNone};
    return optim::LinePoint{.t = t, .loss = loss, .slope = client_.dot(V::kGradient, V::kDirection)};
  };
  const double longest = std::sqrt(client_.dot(V::kDirection, V::kDirection));  // of no element is it exceeded
  optim::LineSearchOptions how{.smallest = options_.change_tolerance, .evaluations = options_.evaluations};
  if (!keeps_pairs()) how.curvature = kConjugateSlope;
  const auto best = optim::strong_wolfe(start, trial, longest, at, how);
  if (best.t != evaluated) at(best.t);  // the gradient of the chosen point
  length_ = best.t;
  const double gained = std::abs(best.loss - loss_);
  loss_ = best.loss;
  return length_ * longest > options_.change_tolerance && gained >= options_.change_tolerance;
}

// The same within the orthant of the weights, or that which the steepest way leads to: what would leave it becomes 0.
// Lengths are halved until the loss falls enough. The step made takes the direction's place, as bends are part of it.
bool ProcedureCoordinator::search_orthant() {
  if (!(client_.dot(V::kSteepest, V::kDirection) > options_.change_tolerance)) return false;
  client_.copy(V::kOrthant, V::kWeights);
  client_.fill_zeros(V::kOrthant, V::kSteepest);
  client_.copy(V::kFrom, V::kWeights);
  const double from = client_.dot(V::kSteepest, V::kFrom), before = loss_;
  double t = first_length();
  for (int tried = 0; tried < options_.evaluations; ++tried, t /= 2) {
    const double loss = evaluate_at(t), along = client_.dot(V::kSteepest, V::kWeights) - from;
    if (!std::isfinite(loss) || !(loss <= before - kDecrease * along)) continue;
    client_.copy(V::kDirection, V::kWeights);
    client_.axpy(V::kDirection, -1, V::kFrom);
    length_ = 1;
    loss_ = loss;
    return before - loss >= options_.change_tolerance;
  }
  client_.copy(V::kWeights, V::kFrom);
  client_.zero(V::kDirection);
  evaluate();  // the gradient of where it stays
  return false;
}

bool ProcedureCoordinator::iterate() {
  if (iterations_ == 0) loss_ = evaluate();
  find_direction();
  const bool moved = sparse() ? search_orthant() : search();
  ++iterations_;
  return moved;
}

// Only the first evaluation of all is made before a search, where the weights stand.
void ProcedureCoordinator::go_back() {
  if (evaluations_ > 1) client_.copy(V::kWeights, V::kFrom);
}

}  // namespace starling::dist::ps
