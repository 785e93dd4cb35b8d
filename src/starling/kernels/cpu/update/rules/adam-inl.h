#if defined(STARLING_KERNELS_CPU_UPDATE_RULES_ADAM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_UPDATE_RULES_ADAM_INL_H
#undef STARLING_KERNELS_CPU_UPDATE_RULES_ADAM_INL_H
#else
#define STARLING_KERNELS_CPU_UPDATE_RULES_ADAM_INL_H
#endif

#include "starling/kernels/cpu/update/rules/adam.h"
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
