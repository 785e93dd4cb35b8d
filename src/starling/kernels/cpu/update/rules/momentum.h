#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_MOMENTUM_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_MOMENTUM_H

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/momentum.h"

namespace starling::kernels {

template <class T>
struct MomentumNumbers {
  T factor, lr, l2, momentum;
  T of_g, of_v;  // the weight moves along of_g · g + of_v · v: with Nesterov g + momentum · v, else v
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

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

template <bool State>
struct MomentumRule {
  static constexpr std::size_t kTargets = State ? 2 : 1;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    g = with_decay(d, g, x[0], k.l2);
    if constexpr (State) {
      x[1] = hn::MulAdd(hn::Set(d, k.momentum), x[1], g);
      g = mix(d, k.of_g, g, k.of_v, x[1]);
    }
    x[0] = less_step(d, x[0], g, k.lr);
  }
};

template <class T>
void piece(const UpdateTensor<T>& t, const MomentumNumbers<T>& k) {
  k.has_state ? run<MomentumRule<true>>(t, k) : run<MomentumRule<false>>(t, k);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
