#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_NADAM_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_NADAM_H

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/nadam.h"

namespace starling::kernels {

template <class T>
struct NadamNumbers : AdamMoments<T> {
  T factor, l2, keep, of_g, of_m;

  NadamNumbers(const op::NadamUpdateAttrs& a, const op::UpdateMoment& now)
      : AdamMoments<T>(a, now.t),
        factor(T(now.factor)),
        l2(a.decoupled ? T(0) : T(a.weight_decay)),
        keep(a.decoupled ? T(1 - now.lr * a.weight_decay) : T(1)) {
    const auto mu = [&](double t) { return a.beta1 * (1 - 0.5 * std::pow(0.96, t * a.momentum_decay)); };
    const double next = mu(now.t + 1);
    of_g = T(now.lr * (1 - mu(now.t)) / (1 - now.mu));
    of_m = T(now.lr * next / (1 - now.mu * next));
  }
};
template <class T>
struct NumbersOf<op::NadamUpdateAttrs, T> : std::type_identity<NadamNumbers<T>> {};

}  // namespace starling::kernels

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

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
