#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "starling/base/error.h"

namespace starling::kernels::reference {

// Connectionist temporal classification of one sample, by forward and backward sums over all paths.
//
// Derivatives of any order come from arithmetic on perturbed numbers: log_probs + Σ εᵢ uᵢ with εᵢ² = 0 for directions
// uᵢ. Such a number is eˡ · Σ over sets of directions of r[set] · Π ε, with r[∅] = 1: the magnitude eˡ is kept apart,
// so that nothing underflows. The derivative of the loss along all directions and each log_prob is the coefficient of
// -posterior at the product of all ε.
struct CtcShape {
  std::int64_t time = 0, batch = 0, classes = 0, targets = 0, blank = 0;
  int directions = 0;
  std::int64_t parts() const { return std::int64_t{1} << directions; }
  std::int64_t states() const { return 2 * targets + 1; }
  std::int64_t number() const { return parts() + 1; }  // doubles of one perturbed number: l, then r
  // Doubles of workspace: forward sums of all times, backward sums of two, and a few numbers.
  std::int64_t workspace() const { return number() * ((time + 2) * states() + 4); }
};

template <class T>
class CtcSample {
 public:
  // work: shape.workspace() doubles. Checks lengths and labels.
  CtcSample(const CtcShape& shape, std::int64_t index, const T* log_probs, const std::int64_t* targets,
            const std::int64_t* input_lengths, const std::int64_t* target_lengths, double* work)
      : shape_(shape),
        index_(index),
        log_probs_(log_probs),
        targets_(targets + index * shape.targets),
        time_(input_lengths[index]),
        states_(2 * target_lengths[index] + 1),
        work_(work) {
    if (time_ < 0 || time_ > shape.time)
      fail("[ctc_loss] expected input lengths in [0, {}], got {} at position {}", shape.time, time_, index);
    if (target_lengths[index] < 0 || target_lengths[index] > shape.targets)
      fail("[ctc_loss] expected target lengths in [0, {}], got {} at position {}", shape.targets, target_lengths[index],
           index);
    for (std::int64_t s = 0; s < target_lengths[index]; ++s) {
      if (targets_[s] < 0 || targets_[s] >= shape.classes || targets_[s] == shape.blank)
        fail("[ctc_loss] expected targets in [0, {}) other than the blank {}, got {} at position [{}, {}]",
             shape.classes, shape.blank, targets_[s], index, s);
    }
  }

  double loss() {
    if (time_ == 0) return states_ == 1 ? 0 : std::numeric_limits<double>::infinity();
    forward({});
    return -total()[0];
  }

  // Adds the derivative to the sample's part of dx [time, batch, classes].
  void derivative(std::span<const T* const> directions, T* dx) {
    if (time_ == 0) return;
    forward(directions);
    double* inverse = extra(0);
    const double* z = total();
    if (!(z[0] > -std::numeric_limits<double>::infinity())) return;
    invert(z, inverse);
    for (std::int64_t t = time_ - 1; t >= 0; --t) {
      if (t + 1 < time_) backward_step(t, directions);
      if (t + 1 == time_) backward_end();
      for (std::int64_t s = 0; s < states_; ++s) {
        const double *a = alpha(t, s), *b = beta(t, s);
        if (a[0] + b[0] == -std::numeric_limits<double>::infinity()) continue;
        double* product = extra(1);
        multiply(a, b, product);
        double all = 0;
        const std::int64_t last = shape_.parts() - 1;
        for (std::int64_t part = 0; part <= last; ++part) all += product[1 + part] * inverse[1 + (last ^ part)];
        dx[at(t, label(s))] -= static_cast<T>(std::exp(product[0] - z[0]) * all);
      }
    }
  }

 private:
  std::int64_t label(std::int64_t state) const { return state % 2 == 0 ? shape_.blank : targets_[state / 2]; }
  std::int64_t at(std::int64_t t, std::int64_t c) const { return (t * shape_.batch + index_) * shape_.classes + c; }
  // True if a path may skip the blank before this state.
  bool skips(std::int64_t state) const { return state >= 2 && state % 2 == 1 && label(state) != label(state - 2); }

  double* alpha(std::int64_t t, std::int64_t s) { return work_ + (t * shape_.states() + s) * shape_.number(); }
  double* beta(std::int64_t t, std::int64_t s) { return alpha(shape_.time + t % 2, s); }
  double* extra(std::int64_t i) { return alpha(shape_.time + 2, 0) + i * shape_.number(); }

  void clear(double* x) const {
    std::fill_n(x, shape_.number(), 0.0);
    x[0] = -std::numeric_limits<double>::infinity();
  }
  void one(double* x) const {
    std::fill_n(x, shape_.number(), 0.0);
    x[1] = 1;
  }
  // to += x
  void add(const double* x, double* to) const {
    if (x[0] == -std::numeric_limits<double>::infinity()) return;
    const double most = std::max(x[0], to[0]), l = most + std::log(std::exp(x[0] - most) + std::exp(to[0] - most));
    const double wx = std::exp(x[0] - l), wt = std::exp(to[0] - l);
    for (std::int64_t i = 1; i < shape_.number(); ++i) to[i] = wx * x[i] + wt * to[i];
    to[0] = l;
  }
  void multiply(const double* x, const double* y, double* to) const {
    to[0] = x[0] + y[0];
    for (std::int64_t set = 0; set < shape_.parts(); ++set) {
      double sum = 0;
      for (std::int64_t sub = set;; sub = (sub - 1) & set) {
        sum += x[1 + sub] * y[1 + (set ^ sub)];
        if (sub == 0) break;
      }
      to[1 + set] = sum;
    }
  }
  // Inverse of the factor r, without the magnitude.
  void invert(const double* x, double* to) const {
    to[0] = 0;
    for (std::int64_t set = 0; set < shape_.parts(); ++set) {
      double sum = set == 0 ? -1 : 0;
      for (std::int64_t sub = set; sub != 0; sub = (sub - 1) & set) sum += x[1 + sub] * to[1 + (set ^ sub)];
      to[1 + set] = -sum;
    }
  }
  // x · p of class c at time t, into `to`.
  void emit(const double* x, std::int64_t t, std::int64_t c, std::span<const T* const> directions, double* to) {
    double* p = extra(2);
    p[0] = static_cast<double>(log_probs_[at(t, c)]);
    for (std::int64_t set = 0; set < shape_.parts(); ++set) {
      p[1 + set] = 1;
      for (std::size_t i = 0; i < directions.size(); ++i) {
        if ((set >> i) & 1) p[1 + set] *= static_cast<double>(directions[i][at(t, c)]);
      }
    }
    multiply(x, p, to);
  }

  void forward(std::span<const T* const> directions) {
    double* sum = extra(1);
    for (std::int64_t t = 0; t < time_; ++t) {
      for (std::int64_t s = 0; s < states_; ++s) {
        clear(sum);
        if (t == 0 && s <= 1) one(sum);
        if (t > 0) {
          add(alpha(t - 1, s), sum);
          if (s >= 1) add(alpha(t - 1, s - 1), sum);
          if (skips(s)) add(alpha(t - 1, s - 2), sum);
        }
        emit(sum, t, label(s), directions, alpha(t, s));
      }
    }
  }
  double* total() {
    double* z = extra(3);
    clear(z);
    add(alpha(time_ - 1, states_ - 1), z);
    if (states_ > 1) add(alpha(time_ - 1, states_ - 2), z);
    return z;
  }
  void backward_end() {
    for (std::int64_t s = 0; s < states_; ++s) {
      if (s >= states_ - 2) one(beta(time_ - 1, s));
      if (s < states_ - 2) clear(beta(time_ - 1, s));
    }
  }
  void backward_step(std::int64_t t, std::span<const T* const> directions) {
    double* next = extra(1);
    for (std::int64_t s = 0; s < states_; ++s) {
      double* to = beta(t, s);
      clear(to);
      for (std::int64_t step = 0; step <= 2 && s + step < states_; ++step) {
        if (step == 2 && !skips(s + 2)) continue;
        emit(beta(t + 1, s + step), t + 1, label(s + step), directions, next);
        add(next, to);
      }
    }
  }

  const CtcShape& shape_;
  std::int64_t index_;
  const T* log_probs_;
  const std::int64_t* targets_;
  std::int64_t time_, states_;
  double* work_;
};

}  // namespace starling::kernels::reference
