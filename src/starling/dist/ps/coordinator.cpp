#include "starling/dist/ps/coordinator.h"

#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/optim/line_search.h"

namespace starling::dist::ps {
namespace {

using V = CoordinatorVectors;

}  // namespace

ProcedureCoordinator::ProcedureCoordinator(Client& client, Evaluate evaluate, const CoordinatorOptions& options)
    : client_(client), evaluate_(std::move(evaluate)), options_(options) {
  check(options.lr > 0 && options.history > 0 && options.evaluations > 0,
        "[sandblaster] expected a rate, a history and evaluations above 0, got {}, {} and {}", options.lr,
        options.history, options.evaluations);
}

double ProcedureCoordinator::evaluate() {
  ++evaluations_;
  return evaluate_();
}

int ProcedureCoordinator::step_vector(int age) const {
  return V::kPairs + (newest_ - 1 - age + 2 * options_.history) % options_.history;
}

// Keeps the last step and the change of the gradient, unless the curvature along it is not positive.
void ProcedureCoordinator::remember() {
  client_.axpy(V::kBefore, -1, V::kGradient);  // -change
  const double curvature = -length_ * client_.dot(V::kDirection, V::kBefore);
  if (!(curvature > 1e-10)) return;
  const int s = V::kPairs + newest_, y = s + options_.history;
  client_.copy(s, V::kDirection);
  client_.scale(s, length_);
  client_.copy(y, V::kBefore);
  client_.scale(y, -1);
  scale_ = curvature / client_.dot(y, y);
  newest_ = (newest_ + 1) % options_.history;
  kept_ = std::min(kept_ + 1, options_.history);
}

// Two-loop recursion over the pairs, newest first and back.
void ProcedureCoordinator::find_lbfgs_direction() {
  if (iterations_ > 0) remember();
  constexpr int q = V::kDirection;
  client_.copy(q, V::kGradient);
  client_.scale(q, -1);
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
}

void ProcedureCoordinator::find_direction() {
  if (options_.procedure == CoordinatorOptions::Procedure::lbfgs)
    find_lbfgs_direction();
  else
    find_cg_direction();
  client_.copy(V::kBefore, V::kGradient);
}

// Moves along the direction; false: it does not lead down.
bool ProcedureCoordinator::search() {
  const bool scaled = iterations_ > 0 && options_.procedure == CoordinatorOptions::Procedure::lbfgs;
  const double trial = scaled ? options_.lr : std::min(1.0, 1 / client_.sum_abs(V::kGradient)) * options_.lr;
  const optim::LinePoint start{.loss = loss_, .slope = client_.dot(V::kGradient, V::kDirection)};
  if (!(start.slope < -options_.change_tolerance)) return false;
  client_.copy(V::kFrom, V::kWeights);
  double evaluated = 0;
  const auto at = [&](double t) {
    client_.copy(V::kWeights, V::kFrom);
    client_.axpy(V::kWeights, t, V::kDirection);
    evaluated = t;
    const double loss = evaluate();
    return optim::LinePoint{.t = t, .loss = loss, .slope = client_.dot(V::kGradient, V::kDirection)};
  };
  const double longest = std::sqrt(client_.dot(V::kDirection, V::kDirection));  // of no element is it exceeded
  const auto best = optim::strong_wolfe(start, trial, longest, at,
                                        {.smallest = options_.change_tolerance, .evaluations = options_.evaluations});
  if (best.t != evaluated) at(best.t);  // the gradient of the chosen point
  length_ = best.t;
  const double gained = std::abs(best.loss - loss_);
  loss_ = best.loss;
  return length_ * longest > options_.change_tolerance && gained >= options_.change_tolerance;
}

bool ProcedureCoordinator::iterate() {
  if (iterations_ == 0) loss_ = evaluate();
  find_direction();
  const bool moved = search();
  ++iterations_;
  return moved;
}

}  // namespace starling::dist::ps
