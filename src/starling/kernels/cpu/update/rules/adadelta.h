#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_ADADELTA_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_ADADELTA_H

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/adadelta.h"

namespace starling::kernels {

template <class T>
struct AdadeltaNumbers {
  T factor, lr, l2, eps, rho, rest;  // rest = 1 - rho

  AdadeltaNumbers(const op::AdadeltaUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)), lr(T(now.lr)), l2(T(a.weight_decay)), eps(T(a.eps)), rho(T(a.rho)), rest(T(1 - a.rho)) {}
};
template <class T>
struct NumbersOf<op::AdadeltaUpdateAttrs, T> : std::type_identity<AdadeltaNumbers<T>> {};

}  // namespace starling::kernels

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

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
