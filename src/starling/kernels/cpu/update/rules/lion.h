#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/lion.h"

namespace starling::kernels {

template <class T>
struct LionNumbers {
  T factor, lr, keep, beta1, rest1, beta2, rest2;

  LionNumbers(const op::LionUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)),
        lr(T(now.lr)),
        keep(T(1 - now.lr * a.weight_decay)),
        beta1(T(a.beta1)),
        rest1(T(1 - a.beta1)),
        beta2(T(a.beta2)),
        rest2(T(1 - a.beta2)) {}
};
template <class T>
struct NumbersOf<op::LionUpdateAttrs, T> : std::type_identity<LionNumbers<T>> {};

}  // namespace starling::kernels
