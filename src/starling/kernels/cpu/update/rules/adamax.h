#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/adamax.h"

namespace starling::kernels {

template <class T>
struct AdamaxNumbers {
  T factor, lr, l2, eps, beta1, rest1, beta2;

  AdamaxNumbers(const op::AdamaxUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)),
        lr(T(now.lr / (1 - std::pow(a.beta1, now.t)))),
        l2(T(a.weight_decay)),
        eps(T(a.eps)),
        beta1(T(a.beta1)),
        rest1(T(1 - a.beta1)),
        beta2(T(a.beta2)) {}
};
template <class T>
struct NumbersOf<op::AdamaxUpdateAttrs, T> : std::type_identity<AdamaxNumbers<T>> {};

}  // namespace starling::kernels
