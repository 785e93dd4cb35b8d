#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/lamb.h"

namespace starling::kernels {

template <class T>
struct LambNumbers : AdamMoments<T> {
  T factor, first, l2;  // first = 1 / (1 - beta1ᵗ)
  double lr;

  LambNumbers(const op::LambUpdateAttrs& a, const op::UpdateMoment& now)
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
struct NumbersOf<op::LambUpdateAttrs, T> : std::type_identity<LambNumbers<T>> {};

}  // namespace starling::kernels
