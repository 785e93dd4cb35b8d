#pragma once

#include <cmath>
#include <variant>

#include "starling/ops/def/update.h"

namespace starling::kernels {

// Scalar operands of an update, as read by a launch.
struct UpdateMoment {
  double lr = 0;
  double t = 1;
  double mu = 1;
  double factor = 1;
};

// Constants of one step of each rule, computed once per launch in double and rounded to the dtype of the weights. Plain
// L2 and decoupled decay share one formula: g + l2 · w, and keep · w - …
template <class T>
struct MomentumNumbers {
  T factor, lr, l2, momentum;
  T of_g, of_v;  // direction: of_g · g + of_v · v
  bool has_state;

  MomentumNumbers(const op::MomentumUpdateAttrs& a, const UpdateMoment& now)
      : factor(T(now.factor)),
        lr(T(now.lr)),
        l2(T(a.weight_decay)),
        momentum(T(a.momentum)),
        of_g(a.nesterov ? T(1) : T(0)),
        of_v(a.nesterov ? T(a.momentum) : T(1)),
        has_state(a.states() > 0) {}
};

template <class T>
struct AdagradNumbers {
  T factor, lr, l2, eps;

  AdagradNumbers(const op::AdagradUpdateAttrs& a, const UpdateMoment& now)
      : factor(T(now.factor)), lr(T(now.lr / (1 + (now.t - 1) * a.lr_decay))), l2(T(a.weight_decay)), eps(T(a.eps)) {}
};

template <class T>
struct AdadeltaNumbers {
  T factor, lr, l2, eps, rho, rest;  // rest = 1 - rho

  AdadeltaNumbers(const op::AdadeltaUpdateAttrs& a, const UpdateMoment& now)
      : factor(T(now.factor)), lr(T(now.lr)), l2(T(a.weight_decay)), eps(T(a.eps)), rho(T(a.rho)), rest(T(1 - a.rho)) {}
};

template <class T>
struct RmspropNumbers {
  T factor, lr, l2, eps, alpha, rest, momentum;
  bool centered, has_momentum;

  RmspropNumbers(const op::RmspropUpdateAttrs& a, const UpdateMoment& now)
      : factor(T(now.factor)),
        lr(T(now.lr)),
        l2(T(a.weight_decay)),
        eps(T(a.eps)),
        alpha(T(a.alpha)),
        rest(T(1 - a.alpha)),
        momentum(T(a.momentum)),
        centered(a.centered),
        has_momentum(a.momentum != 0) {}
};

// First and second moments with bias correction, shared by Adam and its variants.
template <class T>
struct AdamMoments {
  T beta1, rest1, beta2, rest2;
  T root;  // 1 / √(1 - beta2ᵗ)
  T eps;

  template <class A>
  AdamMoments(const A& a, double t)
      : beta1(T(a.beta1)),
        rest1(T(1 - a.beta1)),
        beta2(T(a.beta2)),
        rest2(T(1 - a.beta2)),
        root(T(1 / std::sqrt(1 - std::pow(a.beta2, t)))),
        eps(T(a.eps)) {}
};

template <class T>
struct AdamNumbers : AdamMoments<T> {
  T factor, lr, l2, keep;  // lr includes the correction of the first moment
  bool amsgrad;

  AdamNumbers(const op::AdamUpdateAttrs& a, const UpdateMoment& now)
      : AdamMoments<T>(a, now.t),
        factor(T(now.factor)),
        lr(T(now.lr / (1 - std::pow(a.beta1, now.t)))),
        l2(a.decoupled ? T(0) : T(a.weight_decay)),
        keep(a.decoupled ? T(1 - now.lr * a.weight_decay) : T(1)),
        amsgrad(a.amsgrad) {}
};

template <class T>
struct AdamaxNumbers {
  T factor, lr, l2, eps, beta1, rest1, beta2;

  AdamaxNumbers(const op::AdamaxUpdateAttrs& a, const UpdateMoment& now)
      : factor(T(now.factor)),
        lr(T(now.lr / (1 - std::pow(a.beta1, now.t)))),
        l2(T(a.weight_decay)),
        eps(T(a.eps)),
        beta1(T(a.beta1)),
        rest1(T(1 - a.beta1)),
        beta2(T(a.beta2)) {}
};

template <class T>
struct NadamNumbers : AdamMoments<T> {
  T factor, l2, keep, of_g, of_m;

  NadamNumbers(const op::NadamUpdateAttrs& a, const UpdateMoment& now)
      : AdamMoments<T>(a, now.t),
        factor(T(now.factor)),
        l2(a.decoupled ? T(0) : T(a.weight_decay)),
        keep(a.decoupled ? T(1 - now.lr * a.weight_decay) : T(1)) {
    const auto mu = [&](double t) { return a.beta1 * (1 - 0.5 * std::pow(0.96, t * a.momentum_decay)); };
    const double next = mu(now.t + 1);
    of_g = T(now.lr * (1 - mu(now.t)) / (1 - now.mu));
    of_m = T(now.lr * next / (1 - now.mu * next));
  }
};

template <class T>
struct LionNumbers {
  T factor, lr, keep, beta1, rest1, beta2, rest2;

  LionNumbers(const op::LionUpdateAttrs& a, const UpdateMoment& now)
      : factor(T(now.factor)),
        lr(T(now.lr)),
        keep(T(1 - now.lr * a.weight_decay)),
        beta1(T(a.beta1)),
        rest1(T(1 - a.beta1)),
        beta2(T(a.beta2)),
        rest2(T(1 - a.beta2)) {}
};

template <class T>
struct AverageNumbers {
  T factor, lr, keep;

  AverageNumbers(const op::AverageUpdateAttrs&, const UpdateMoment& now)
      : factor(T(now.factor)), lr(T(now.lr)), keep(T(1 - now.lr)) {}
};

// Rules that scale the step of a tensor by norms of the whole tensor: a first pass measures, a second applies.
template <class T>
struct LambNumbers : AdamMoments<T> {
  T factor, first, l2;  // first = 1 / (1 - beta1ᵗ)
  double lr;

  LambNumbers(const op::LambUpdateAttrs& a, const UpdateMoment& now)
      : AdamMoments<T>(a, now.t),
        factor(T(now.factor)),
        first(T(1 / (1 - std::pow(a.beta1, now.t)))),
        l2(T(a.weight_decay)),
        lr(now.lr) {}
  // Learning rate from the sums of squares of the weights and of the direction.
  T rate(double weights, double directions) const {
    return T(weights > 0 && directions > 0 ? lr * std::sqrt(weights) / std::sqrt(directions) : lr);
  }
};

template <class T>
struct LarsNumbers {
  T factor, l2, momentum;
  double lr, trust, eps, decay;

  LarsNumbers(const op::LarsUpdateAttrs& a, const UpdateMoment& now)
      : factor(T(now.factor)),
        l2(T(a.weight_decay)),
        momentum(T(a.momentum)),
        lr(now.lr),
        trust(a.trust),
        eps(a.eps),
        decay(a.weight_decay) {}
  // Learning rate from the sums of squares of the weights and of the gradient.
  T rate(double weights, double gradients) const {
    if (!(weights > 0 && gradients > 0)) return T(lr);
    return T(lr * trust * std::sqrt(weights) / (std::sqrt(gradients) + decay * std::sqrt(weights) + eps));
  }
};

// Constants of any rule; NumbersOf maps a rule's attributes to its constants.
template <class T>
using UpdateNumbers =
    std::variant<MomentumNumbers<T>, AdagradNumbers<T>, AdadeltaNumbers<T>, RmspropNumbers<T>, AdamNumbers<T>,
                 AdamaxNumbers<T>, NadamNumbers<T>, LionNumbers<T>, AverageNumbers<T>>;
template <class T>
using TrustNumbers = std::variant<LambNumbers<T>, LarsNumbers<T>>;

template <class A, class T>
struct NumbersOf;
template <class T>
struct NumbersOf<op::MomentumUpdateAttrs, T> : std::type_identity<MomentumNumbers<T>> {};
template <class T>
struct NumbersOf<op::AdagradUpdateAttrs, T> : std::type_identity<AdagradNumbers<T>> {};
template <class T>
struct NumbersOf<op::AdadeltaUpdateAttrs, T> : std::type_identity<AdadeltaNumbers<T>> {};
template <class T>
struct NumbersOf<op::RmspropUpdateAttrs, T> : std::type_identity<RmspropNumbers<T>> {};
template <class T>
struct NumbersOf<op::AdamUpdateAttrs, T> : std::type_identity<AdamNumbers<T>> {};
template <class T>
struct NumbersOf<op::AdamaxUpdateAttrs, T> : std::type_identity<AdamaxNumbers<T>> {};
template <class T>
struct NumbersOf<op::NadamUpdateAttrs, T> : std::type_identity<NadamNumbers<T>> {};
template <class T>
struct NumbersOf<op::LionUpdateAttrs, T> : std::type_identity<LionNumbers<T>> {};
template <class T>
struct NumbersOf<op::AverageUpdateAttrs, T> : std::type_identity<AverageNumbers<T>> {};
template <class T>
struct NumbersOf<op::LambUpdateAttrs, T> : std::type_identity<LambNumbers<T>> {};
template <class T>
struct NumbersOf<op::LarsUpdateAttrs, T> : std::type_identity<LarsNumbers<T>> {};

}  // namespace starling::kernels
