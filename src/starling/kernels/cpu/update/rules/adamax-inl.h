#if defined(STARLING_KERNELS_CPU_UPDATE_RULES_ADAMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_UPDATE_RULES_ADAMAX_INL_H
#undef STARLING_KERNELS_CPU_UPDATE_RULES_ADAMAX_INL_H
#else
#define STARLING_KERNELS_CPU_UPDATE_RULES_ADAMAX_INL_H
#endif

#include "starling/kernels/cpu/update/rules/adamax.h"
#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

struct AdamaxRule {
  static constexpr std::size_t kTargets = 3;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    g = with_decay(d, g, x[0], k.l2);
    x[1] = mix(d, k.beta1, x[1], k.rest1, g);
    x[2] = hn::Max(hn::Mul(hn::Set(d, k.beta2), x[2]), hn::Add(hn::Abs(g), hn::Set(d, k.eps)));
    x[0] = less_step(d, x[0], hn::Div(x[1], x[2]), k.lr);
  }
};

template <class T>
void piece(const UpdateTensor<T>& t, const AdamaxNumbers<T>& k) {
  run<AdamaxRule>(t, k);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
