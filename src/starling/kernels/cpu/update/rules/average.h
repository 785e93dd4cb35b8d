#pragma once

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/average.h"

namespace starling::kernels {

template <class T>
struct AverageNumbers {
  T factor, lr, keep;

  AverageNumbers(const op::AverageUpdateAttrs&, const op::UpdateMoment& now)
      : factor(T(now.factor)), lr(T(now.lr)), keep(T(1 - now.lr)) {}
};
template <class T>
struct NumbersOf<op::AverageUpdateAttrs, T> : std::type_identity<AverageNumbers<T>> {};

}  // namespace starling::kernels
