#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/adagrad.h"

namespace starling::kernels {

template <class T>
struct AdagradNumbers {
  T factor, lr, l2, eps;

  AdagradNumbers(const op::AdagradUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)), lr(T(now.lr / (1 + (now.t - 1) * a.lr_decay))), l2(T(a.weight_decay)), eps(T(a.eps)) {}
};
template <class T>
struct NumbersOf<op::AdagradUpdateAttrs, T> : std::type_identity<AdagradNumbers<T>> {};

}  // namespace starling::kernels
