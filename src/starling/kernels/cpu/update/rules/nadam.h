#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/nadam.h"

namespace starling::kernels {

template <class T>
struct NadamNumbers : AdamMoments<T> {
  T factor, l2, keep, of_g, of_m;

  NadamNumbers(const op::NadamUpdateAttrs& a, const op::UpdateMoment& now)
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
struct NumbersOf<op::NadamUpdateAttrs, T> : std::type_identity<NadamNumbers<T>> {};

}  // namespace starling::kernels
