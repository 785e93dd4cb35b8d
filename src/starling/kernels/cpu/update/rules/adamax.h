#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_ADAMAX_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_ADAMAX_H

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/adamax.h"

namespace starling::kernels {

template <class T>
struct AdamaxNumbers {
  T factor, lr, l2, eps, beta1, rest1, beta2;

  AdamaxNumbers(const op::AdamaxUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)),
        lr(T(now.lr / (1 - std::pow(a.beta1, now.t)))),
        l2(T(a.weight_decay)),
        eps(T(a.eps)),
        beta1(T(a.beta1)),
        rest1(T(1 - a.beta1)),
        beta2(T(a.beta2)) {}
};
template <class T>
struct NumbersOf<op::AdamaxUpdateAttrs, T> : std::type_identity<AdamaxNumbers<T>> {};

}  // namespace starling::kernels

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

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
