#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_ADAM_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_ADAM_H

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

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

template <bool Amsgrad>
struct AdamRule {
  static constexpr std::size_t kTargets = Amsgrad ? 4 : 3;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    move_moments(d, x[1], x[2], with_decay(d, g, x[0], k.l2), k);
    V second = x[2];
    if constexpr (Amsgrad) second = x[3] = hn::Max(x[3], x[2]);
    x[0] = less_step(d, hn::Mul(x[0], hn::Set(d, k.keep)), hn::Div(x[1], deviation(d, second, k)), k.lr);
  }
};

template <class T>
void piece(const UpdateTensor<T>& t, const AdamNumbers<T>& k) {
  k.amsgrad ? run<AdamRule<true>>(t, k) : run<AdamRule<false>>(t, k);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
