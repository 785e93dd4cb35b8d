#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_LION_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_LION_H

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/lion.h"

namespace starling::kernels {

template <class T>
struct LionNumbers {
  T factor, lr, keep, beta1, rest1, beta2, rest2;

  LionNumbers(const op::LionUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)),
        lr(T(now.lr)),
        keep(T(1 - now.lr * a.weight_decay)),
        beta1(T(a.beta1)),
        rest1(T(1 - a.beta1)),
        beta2(T(a.beta2)),
        rest2(T(1 - a.beta2)) {}
};
template <class T>
struct NumbersOf<op::LionUpdateAttrs, T> : std::type_identity<LionNumbers<T>> {};

}  // namespace starling::kernels

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

struct LionRule {
  static constexpr std::size_t kTargets = 2;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    const V c = mix(d, k.beta1, x[1], k.rest1, g);
    // lr with the sign of c; c itself where it is 0 or NaN.
    const V signed_lr = hn::CopySign(hn::Set(d, k.lr), c);
    const V u = hn::IfThenElse(hn::Gt(hn::Abs(c), hn::Zero(d)), signed_lr, c);
    x[1] = mix(d, k.beta2, x[1], k.rest2, g);
    x[0] = hn::Sub(hn::Mul(x[0], hn::Set(d, k.keep)), u);
  }
};

template <class T>
void piece(const UpdateTensor<T>& t, const LionNumbers<T>& k) {
  run<LionRule>(t, k);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
