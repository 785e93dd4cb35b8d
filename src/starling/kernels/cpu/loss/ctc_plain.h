#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/kernels/cpu/simd/block.h"
#include "starling/kernels/reference/ctc.h"

namespace starling::kernels {

// CTC loss and first derivative of one sample: log-sum-exp over all states of a time step at once, through vector exp
// and log. kNone stands for log 0, so that infinities never meet.
template <class T>
class CtcPlain {
 public:
  struct Functions {
    BlockFn exp, log;  // of doubles
  };
  static std::int64_t workspace(const reference::CtcShape& shape) { return (shape.time + 9) * shape.states(); }

  // Operands must have been checked. work: workspace(shape) doubles.
  CtcPlain(const reference::CtcShape& shape, const Functions& functions, std::int64_t index, const T* log_probs,
           const std::int64_t* targets, std::int64_t time, std::int64_t length, double* work)
      : shape_(shape),
        functions_(functions),
        index_(index),
        log_probs_(log_probs),
        targets_(targets + index * shape.targets),
        time_(time),
        states_(2 * length + 1),
        alpha_(work),
        beta_(work + shape.time * shape.states()),
        emitted_(beta_ + shape.states()),
        skip_(emitted_ + shape.states()),
        most_(skip_ + shape.states()),
        terms_(most_ + shape.states()) {
    // 0 where a path may skip the blank before this state, else kNone (log 1 or log 0).
    for (std::int64_t s = 0; s < states_; ++s) skip_[s] = s >= 2 && s % 2 == 1 && label(s) != label(s - 2) ? 0 : kNone;
  }

  double loss() {
    if (time_ == 0) return states_ == 1 ? 0 : std::numeric_limits<double>::infinity();
    forward();
    const double z = total();
    return z <= kNone / 2 ? std::numeric_limits<double>::infinity() : -z;
  }

  void derivative(T* dx) {
    if (time_ == 0) return;
    forward();
    const double z = total();
    if (!(z > kNone / 2)) return;
    for (std::int64_t s = 0; s < states_; ++s) beta_[s] = s >= states_ - 2 ? 0 : kNone;
    for (std::int64_t t = time_ - 1; t >= 0; --t) {
      if (t + 1 < time_) backward_step(t + 1);
      for (std::int64_t s = 0; s < states_; ++s) terms_[s] = std::max(alpha(t)[s] + beta_[s] - z, kTiny);
      apply(functions_.exp, terms_, states_);
      for (std::int64_t s = 0; s < states_; ++s) dx[at(t, label(s))] -= static_cast<T>(terms_[s]);
    }
  }

 private:
  static constexpr double kNone = -1e300;
  static constexpr double kTiny = -740;  // exp of it is nearly 0

  std::int64_t label(std::int64_t state) const { return state % 2 == 0 ? shape_.blank : targets_[state / 2]; }
  std::int64_t at(std::int64_t t, std::int64_t c) const { return (t * shape_.batch + index_) * shape_.classes + c; }
  double* alpha(std::int64_t t) { return alpha_ + t * shape_.states(); }
  static void apply(BlockFn f, double* x, std::int64_t n) {
    const void* in[1] = {x};
    f(in, 0, x, n, nullptr);
  }
  double total() {
    const double* last = alpha(time_ - 1);
    const double a = last[states_ - 1], b = states_ > 1 ? last[states_ - 2] : kNone, most = std::max({a, b, kNone});
    return most <= kNone / 2 ? kNone : most + std::log(std::exp(a - most) + std::exp(b - most));
  }

  // to[s] = log-sum-exp of three terms per state, given by `term(s, i)`.
  template <class Term>
  void log_sums(double* to, Term&& term) {
    const std::int64_t n = states_;
    for (std::int64_t s = 0; s < n; ++s) {
      const double a = term(s, 0), b = term(s, 1), c = term(s, 2), most = std::max({a, b, c, kNone});
      most_[s] = most;
      terms_[s] = std::max(a - most, kTiny);
      terms_[n + s] = std::max(b - most, kTiny);
      terms_[2 * n + s] = std::max(c - most, kTiny);
    }
    apply(functions_.exp, terms_, 3 * n);
    for (std::int64_t s = 0; s < n; ++s) terms_[s] += terms_[n + s] + terms_[2 * n + s];
    apply(functions_.log, terms_, n);
    for (std::int64_t s = 0; s < n; ++s) to[s] = most_[s] <= kNone / 2 ? kNone : most_[s] + terms_[s];
  }

  void forward() {
    for (std::int64_t s = 0; s < states_; ++s)
      alpha(0)[s] = s <= 1 ? static_cast<double>(log_probs_[at(0, label(s))]) : kNone;
    for (std::int64_t t = 1; t < time_; ++t) {
      const double* before = alpha(t - 1);
      log_sums(alpha(t), [&](std::int64_t s, std::int64_t i) {
        return s < i ? kNone : i == 2 ? before[s - 2] + skip_[s] : before[s - i];
      });
      for (std::int64_t s = 0; s < states_; ++s) alpha(t)[s] += static_cast<double>(log_probs_[at(t, label(s))]);
    }
  }

  // One backward step: the sums after time t become those before it.
  void backward_step(std::int64_t t) {
    for (std::int64_t s = 0; s < states_; ++s)
      emitted_[s] = beta_[s] + static_cast<double>(log_probs_[at(t, label(s))]);
    log_sums(beta_, [&](std::int64_t s, std::int64_t i) {
      return s + i >= states_ ? kNone : i == 2 ? emitted_[s + 2] + skip_[s + 2] : emitted_[s + i];
    });
  }

  const reference::CtcShape& shape_;
  Functions functions_;
  std::int64_t index_;
  const T* log_probs_;
  const std::int64_t* targets_;
  std::int64_t time_, states_;
  double *alpha_, *beta_, *emitted_, *skip_, *most_, *terms_;
};

}  // namespace starling::kernels
