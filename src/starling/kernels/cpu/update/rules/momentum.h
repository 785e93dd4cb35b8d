#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/momentum.h"

namespace starling::kernels {

template <class T>
struct MomentumNumbers {
  T factor, lr, l2, momentum;
  T of_g, of_v;  // direction: of_g · g + of_v · v
  bool has_state;

  MomentumNumbers(const op::MomentumUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)),
        lr(T(now.lr)),
        l2(T(a.weight_decay)),
        momentum(T(a.momentum)),
        of_g(a.nesterov ? T(1) : T(0)),
        of_v(a.nesterov ? T(a.momentum) : T(1)),
        has_state(a.states() > 0) {}
};
template <class T>
struct NumbersOf<op::MomentumUpdateAttrs, T> : std::type_identity<MomentumNumbers<T>> {};

}  // namespace starling::kernels
