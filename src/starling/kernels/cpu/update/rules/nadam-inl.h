#if defined(STARLING_KERNELS_CPU_UPDATE_RULES_NADAM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_UPDATE_RULES_NADAM_INL_H
#undef STARLING_KERNELS_CPU_UPDATE_RULES_NADAM_INL_H
#else
#define STARLING_KERNELS_CPU_UPDATE_RULES_NADAM_INL_H
#endif

#include "starling/kernels/cpu/update/rules/nadam.h"
#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

struct NadamRule {
  static constexpr std::size_t kTargets = 3;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    g = with_decay(d, g, x[0], k.l2);
    move_moments(d, x[1], x[2], g, k);
    const V u = hn::Div(mix(d, k.of_g, g, k.of_m, x[1]), deviation(d, x[2], k));
    x[0] = hn::Sub(hn::Mul(x[0], hn::Set(d, k.keep)), u);
  }
};

template <class T>
void piece(const UpdateTensor<T>& t, const NadamNumbers<T>& k) {
  run<NadamRule>(t, k);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
