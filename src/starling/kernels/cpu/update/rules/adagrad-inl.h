#if defined(STARLING_KERNELS_CPU_UPDATE_RULES_ADAGRAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_UPDATE_RULES_ADAGRAD_INL_H
#undef STARLING_KERNELS_CPU_UPDATE_RULES_ADAGRAD_INL_H
#else
#define STARLING_KERNELS_CPU_UPDATE_RULES_ADAGRAD_INL_H
#endif

#include "starling/kernels/cpu/update/rules/adagrad.h"
#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

struct AdagradRule {
  static constexpr std::size_t kTargets = 2;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    g = with_decay(d, g, x[0], k.l2);
    x[1] = hn::MulAdd(g, g, x[1]);
    x[0] = less_step(d, x[0], hn::Div(g, hn::Add(hn::Sqrt(x[1]), hn::Set(d, k.eps))), k.lr);
  }
};

template <class T>
void piece(const UpdateTensor<T>& t, const AdagradNumbers<T>& k) {
  run<AdagradRule>(t, k);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
