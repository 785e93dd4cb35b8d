#if defined(STARLING_KERNELS_CPU_UPDATE_RULES_AVERAGE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_UPDATE_RULES_AVERAGE_INL_H
#undef STARLING_KERNELS_CPU_UPDATE_RULES_AVERAGE_INL_H
#else
#define STARLING_KERNELS_CPU_UPDATE_RULES_AVERAGE_INL_H
#endif

#include "starling/kernels/cpu/update/rules/average.h"
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
