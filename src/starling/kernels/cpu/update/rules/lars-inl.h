#if defined(STARLING_KERNELS_CPU_UPDATE_RULES_LARS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_UPDATE_RULES_LARS_INL_H
#undef STARLING_KERNELS_CPU_UPDATE_RULES_LARS_INL_H
#else
#define STARLING_KERNELS_CPU_UPDATE_RULES_LARS_INL_H
#endif

#include "starling/kernels/cpu/update/rules/lars.h"
#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

struct LarsRule {
  static constexpr std::size_t kTargets = 2, kMeasured[] = {0, 0}, kApplied[] = {0, 2};
  template <class D, class V, class K>
  static HWY_INLINE V measure(D, V*, V g, const K&) {
    return g;
  }
  template <class D, class V, class K>
  static HWY_INLINE void apply(D d, V* x, V g, const K& k, hn::TFromD<D> rate) {
    x[1] = mix(d, k.momentum, x[1], rate, with_decay(d, g, x[0], k.l2));
    x[0] = hn::Sub(x[0], x[1]);
  }
};

template <class T>
TrustSums measure_piece(const UpdateTensor<T>& t, const LarsNumbers<T>& k) {
  return measure<LarsRule>(t, k);
}
template <class T>
void apply_piece(const UpdateTensor<T>& t, const LarsNumbers<T>& k, T rate) {
  apply<LarsRule>(t, k, rate);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
