#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_AVERAGE_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_AVERAGE_H

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

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

struct AverageRule {
  static constexpr std::size_t kTargets = 1;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    x[0] = mix(d, k.keep, x[0], k.lr, g);
  }
};

template <class T>
void piece(const UpdateTensor<T>& t, const AverageNumbers<T>& k) {
  run<AverageRule>(t, k);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
