#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_LARS_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_LARS_H

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/lars.h"

namespace starling::kernels {

template <class T>
struct LarsNumbers {
  T factor, l2, momentum;
  double lr, trust, eps, decay;

  LarsNumbers(const op::LarsUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)),
        l2(T(a.weight_decay)),
        momentum(T(a.momentum)),
        lr(now.lr),
        trust(a.trust),
        eps(a.eps),
        decay(a.weight_decay) {}
  // Learning rate from the sums of squares of the weights and of the gradient.
  T rate(double weights, double gradients) const {
    if (!(weights > 0 && gradients > 0)) return T(lr);
    return T(lr * trust * std::sqrt(weights) / (std::sqrt(gradients) + decay * std::sqrt(weights) + eps));
  }
};
template <class T>
struct NumbersOf<op::LarsUpdateAttrs, T> : std::type_identity<LarsNumbers<T>> {};

}  // namespace starling::kernels

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

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
