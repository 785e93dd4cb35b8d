#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_RMSPROP_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_RMSPROP_H

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/rmsprop.h"

namespace starling::kernels {

template <class T>
struct RmspropNumbers {
  T factor, lr, l2, eps, alpha, rest, momentum;
  bool centered, has_momentum;

  RmspropNumbers(const op::RmspropUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)),
        lr(T(now.lr)),
        l2(T(a.weight_decay)),
        eps(T(a.eps)),
        alpha(T(a.alpha)),
        rest(T(1 - a.alpha)),
        momentum(T(a.momentum)),
        centered(a.centered),
        has_momentum(a.momentum != 0) {}
};
template <class T>
struct NumbersOf<op::RmspropUpdateAttrs, T> : std::type_identity<RmspropNumbers<T>> {};

}  // namespace starling::kernels

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

template <bool Centered, bool Momentum>
struct RmspropRule {
  static constexpr std::size_t kTargets = 2 + std::size_t{Centered} + std::size_t{Momentum};
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    g = with_decay(d, g, x[0], k.l2);
    x[1] = mix(d, k.alpha, x[1], k.rest, hn::Mul(g, g));
    V variance = x[1];
    if constexpr (Centered) {
      x[2] = mix(d, k.alpha, x[2], k.rest, g);
      variance = hn::NegMulAdd(x[2], x[2], variance);
      variance = hn::IfThenZeroElse(hn::Lt(variance, hn::Zero(d)), variance);  // negative by rounding
    }
    V u = hn::Div(g, hn::Add(hn::Sqrt(variance), hn::Set(d, k.eps)));
    if constexpr (Momentum) {
      V& buffer = x[kTargets - 1];
      u = buffer = hn::MulAdd(hn::Set(d, k.momentum), buffer, u);
    }
    x[0] = less_step(d, x[0], u, k.lr);
  }
};

template <class T>
void piece(const UpdateTensor<T>& t, const RmspropNumbers<T>& k) {
  if (k.centered)
    k.has_momentum ? run<RmspropRule<true, true>>(t, k) : run<RmspropRule<true, false>>(t, k);
  else
    k.has_momentum ? run<RmspropRule<false, true>>(t, k) : run<RmspropRule<false, false>>(t, k);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
