#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/lars.h"

namespace starling::kernels {

template <class T>
struct LarsNumbers {
  T factor, l2, momentum;
  double lr, trust, eps, decay;

  LarsNumbers(const op::LarsUpdateAttrs& a, const op::UpdateMoment& now)
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
template <class T>
struct NumbersOf<op::LarsUpdateAttrs, T> : std::type_identity<LarsNumbers<T>> {};

}  // namespace starling::kernels
