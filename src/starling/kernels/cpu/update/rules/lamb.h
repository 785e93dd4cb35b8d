#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_LAMB_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_LAMB_H

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/lamb.h"

namespace starling::kernels {

template <class T>
struct LambNumbers : AdamMoments<T> {
  T factor, first, l2;  // first = 1 / (1 - beta1ᵗ)
  double lr;

  LambNumbers(const op::LambUpdateAttrs& a, const op::UpdateMoment& now)
      : AdamMoments<T>(a, now.t),
        factor(T(now.factor)),
        first(T(1 / (1 - std::pow(a.beta1, now.t)))),
        l2(T(a.weight_decay)),
        lr(now.lr) {}
  // Learning rate from the sums of squares of the weights and of the direction.
  T rate(double weights, double directions) const {
    return T(weights > 0 && directions > 0 ? lr * std::sqrt(weights) / std::sqrt(directions) : lr);
  }
};
template <class T>
struct NumbersOf<op::LambUpdateAttrs, T> : std::type_identity<LambNumbers<T>> {};

}  // namespace starling::kernels

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

#include "starling/kernels/cpu/update/update_rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

struct LambRule {
  static constexpr std::size_t kTargets = 3, kMeasured[] = {1, 3}, kApplied[] = {0, 1};
  template <class D, class V, class K>
  static HWY_INLINE V direction(D d, const V* x, const K& k) {
    const V u = hn::Div(hn::Mul(x[1], hn::Set(d, k.first)), deviation(d, x[2], k));
    return with_decay(d, u, x[0], k.l2);
  }
  template <class D, class V, class K>
  static HWY_INLINE V measure(D d, V* x, V g, const K& k) {
    move_moments(d, x[1], x[2], g, k);
    return direction(d, x, k);
  }
  template <class D, class V, class K>
  static HWY_INLINE void apply(D d, V* x, V, const K& k, hn::TFromD<D> rate) {
    x[0] = less_step(d, x[0], direction(d, x, k), rate);
  }
};

template <class T>
TrustSums measure_piece(const UpdateTensor<T>& t, const LambNumbers<T>& k) {
  return measure<LambRule>(t, k);
}
template <class T>
void apply_piece(const UpdateTensor<T>& t, const LambNumbers<T>& k, T rate) {
  apply<LambRule>(t, k, rate);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
