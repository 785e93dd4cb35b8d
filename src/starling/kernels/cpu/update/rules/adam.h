#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/adam.h"

namespace starling::kernels {

template <class T>
struct AdamNumbers : AdamMoments<T> {
  T factor, lr, l2, keep;  // lr includes the correction of the first moment
  bool amsgrad;

  AdamNumbers(const op::AdamUpdateAttrs& a, const op::UpdateMoment& now)
      : AdamMoments<T>(a, now.t),
        factor(T(now.factor)),
        lr(T(now.lr / (1 - std::pow(a.beta1, now.t)))),
        l2(a.decoupled ? T(0) : T(a.weight_decay)),
        keep(a.decoupled ? T(1 - now.lr * a.weight_decay) : T(1)),
        amsgrad(a.amsgrad) {}
};
template <class T>
struct NumbersOf<op::AdamUpdateAttrs, T> : std::type_identity<AdamNumbers<T>> {};

}  // namespace starling::kernels
