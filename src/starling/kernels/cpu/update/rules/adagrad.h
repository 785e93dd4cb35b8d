#ifndef STARLING_KERNELS_CPU_UPDATE_RULES_ADAGRAD_H
#define STARLING_KERNELS_CPU_UPDATE_RULES_ADAGRAD_H

#include "starling/kernels/cpu/update/update_numbers.h"
#include "starling/ops/updates/adagrad.h"

namespace starling::kernels {

template <class T>
struct AdagradNumbers {
  T factor, lr, l2, eps;

  AdagradNumbers(const op::AdagradUpdateAttrs& a, const op::UpdateMoment& now)
      : factor(T(now.factor)), lr(T(now.lr / (1 + (now.t - 1) * a.lr_decay))), l2(T(a.weight_decay)), eps(T(a.eps)) {}
};
template <class T>
struct NumbersOf<op::AdagradUpdateAttrs, T> : std::type_identity<AdagradNumbers<T>> {};

}  // namespace starling::kernels

#endif

#ifdef STARLING_UPDATE_VECTORS  // once for every instruction set

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
