#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/adadelta.h"

namespace starling::kernels {

template <class T>
struct AdadeltaNumbers {
  T factor, lr, l2, eps, rho, rest;  // rest = 1 - rho

  AdadeltaNumbers(const op::AdadeltaUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)), lr(T(now.lr)), l2(T(a.weight_decay)), eps(T(a.eps)), rho(T(a.rho)), rest(T(1 - a.rho)) {}
};
template <class T>
struct NumbersOf<op::AdadeltaUpdateAttrs, T> : std::type_identity<AdadeltaNumbers<T>> {};

}  // namespace starling::kernels
