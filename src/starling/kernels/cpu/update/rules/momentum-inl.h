#if defined(STARLING_KERNELS_CPU_UPDATE_RULES_MOMENTUM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_UPDATE_RULES_MOMENTUM_INL_H
#undef STARLING_KERNELS_CPU_UPDATE_RULES_MOMENTUM_INL_H
#else
#define STARLING_KERNELS_CPU_UPDATE_RULES_MOMENTUM_INL_H
#endif

#include "starling/kernels/cpu/update/rules/momentum.h"
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
