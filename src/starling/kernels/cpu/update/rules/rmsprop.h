#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/rmsprop.h"

namespace starling::kernels {

template <class T>
struct RmspropNumbers {
  T factor, lr, l2, eps, alpha, rest, momentum;
  bool centered, has_momentum;

  RmspropNumbers(const op::RmspropUpdateAttrs& a, const op::UpdateMoment& now)
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
template <class T>
struct NumbersOf<op::RmspropUpdateAttrs, T> : std::type_identity<RmspropNumbers<T>> {};

}  // namespace starling::kernels
