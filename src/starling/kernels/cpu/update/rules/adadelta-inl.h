#if defined(STARLING_KERNELS_CPU_UPDATE_RULES_ADADELTA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_UPDATE_RULES_ADADELTA_INL_H
#undef STARLING_KERNELS_CPU_UPDATE_RULES_ADADELTA_INL_H
#else
#define STARLING_KERNELS_CPU_UPDATE_RULES_ADADELTA_INL_H
#endif

#include "starling/kernels/cpu/update/rules/adadelta.h"
#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

struct AdadeltaRule {
  static constexpr std::size_t kTargets = 3;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    const V eps = hn::Set(d, k.eps);
    g = with_decay(d, g, x[0], k.l2);
    x[1] = mix(d, k.rho, x[1], k.rest, hn::Mul(g, g));
    const V u = hn::Mul(hn::Div(hn::Sqrt(hn::Add(x[2], eps)), hn::Sqrt(hn::Add(x[1], eps))), g);
    x[2] = mix(d, k.rho, x[2], k.rest, hn::Mul(u, u));
    x[0] = less_step(d, x[0], u, k.lr);
  }
};

template <class T>
void piece(const UpdateTensor<T>& t, const AdadeltaNumbers<T>& k) {
  run<AdadeltaRule>(t, k);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
