// Parts of update rules on vectors: x[0] is the weight, the rest are states in their order.
#if defined(STARLING_KERNELS_CPU_SIMD_UPDATE_RULES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_UPDATE_RULES_INL_H
#undef STARLING_KERNELS_CPU_SIMD_UPDATE_RULES_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_UPDATE_RULES_INL_H
#endif

#include <hwy/highway.h>

#include "starling/kernels/cpu/simd/tail-inl.h"
#include "starling/kernels/cpu/update/update_numbers.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a · x + b · y
template <class D, class V>
HWY_INLINE V mix(D d, hn::TFromD<D> a, V x, hn::TFromD<D> b, V y) {
  return hn::MulAdd(hn::Set(d, a), x, hn::Mul(hn::Set(d, b), y));
}

// g + l2 · w
template <class D, class V>
HWY_INLINE V with_decay(D d, V g, V w, hn::TFromD<D> l2) {
  return hn::MulAdd(hn::Set(d, l2), w, g);
}

template <class D, class V>
HWY_INLINE V less_step(D d, V w, V direction, hn::TFromD<D> lr) {
  return hn::NegMulAdd(hn::Set(d, lr), direction, w);
}

// First and second moments of g, and √v̂ + eps.
template <class D, class V, class K>
HWY_INLINE void move_moments(D d, V& m, V& v, V g, const K& k) {
  m = mix(d, k.beta1, m, k.rest1, g);
  v = hn::MulAdd(hn::Set(d, k.beta2), v, hn::Mul(hn::Set(d, k.rest2), hn::Mul(g, g)));
}
template <class D, class V, class K>
HWY_INLINE V deviation(D d, V v, const K& k) {
  return hn::MulAdd(hn::Sqrt(v), hn::Set(d, k.root), hn::Set(d, k.eps));
}

// A rule is a struct with step() on vectors and the number of targets; flags that change a rule's states are template
// arguments. Two-pass rules: measure() may update states and returns the value whose squares are summed beside the
// weights'; apply() takes the step at the rate computed from both sums. kMeasured and kApplied are the ranges of
// targets that each one changes.

// Calls body(x, g, count) on every vector of the first kTargets arrays and of the gradient, times its factor, and
// stores those of x in [First, Last). Only the first `count` lanes are elements; the rest of the last vector is not
// stored.
template <std::size_t kTargets, std::size_t First, std::size_t Last, class D, class T, class Body>
HWY_INLINE void for_vectors(D d, const UpdateTensor<T>& tensor, T factor, Body&& body) {
  using V = hn::Vec<D>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V times = hn::Set(d, factor);
  V x[kTargets];
  std::int64_t i = 0;
  for (; i + lanes <= tensor.n; i += lanes) {
    for (std::size_t k = 0; k < kTargets; ++k) x[k] = hn::LoadU(d, tensor.targets[k] + i);
    body(x, hn::Mul(hn::LoadU(d, tensor.gradient + i), times), hn::Lanes(d));
    for (std::size_t k = First; k < Last; ++k) hn::StoreU(x[k], d, tensor.targets[k] + i);
  }
  if (i == tensor.n) return;
  const std::size_t rest = static_cast<std::size_t>(tensor.n - i);
  for (std::size_t k = 0; k < kTargets; ++k) x[k] = load_tail(d, tensor.targets[k] + i, rest);
  body(x, hn::Mul(load_tail(d, tensor.gradient + i, rest), times), rest);
  for (std::size_t k = First; k < Last; ++k) store_tail(d, x[k], tensor.targets[k] + i, rest);
}

template <class Rule, class T, class K>
void run(const UpdateTensor<T>& tensor, const K& k) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const K numbers = k;  // private copy, which stores cannot alias
  for_vectors<Rule::kTargets, 0, Rule::kTargets>(
      d, tensor, numbers.factor, [&](V* x, V g, std::size_t) HWY_ATTR { Rule::step(d, x, g, numbers); });
}

template <class Rule, class T, class K>
TrustSums measure(const UpdateTensor<T>& tensor, const K& k) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const K numbers = k;
  V weights = hn::Zero(d), others = hn::Zero(d);
  for_vectors<Rule::kTargets, Rule::kMeasured[0], Rule::kMeasured[1]>(
      d, tensor, numbers.factor, [&](V* x, V g, std::size_t count) HWY_ATTR {
        const V other = Rule::measure(d, x, g, numbers);
        // Lanes beyond the end are masked, since they may be NaN.
        const V counted = count < hn::Lanes(d) ? hn::IfThenElseZero(hn::FirstN(d, count), other) : other;
        weights = hn::MulAdd(x[0], x[0], weights);
        others = hn::MulAdd(counted, counted, others);
      });
  return {static_cast<double>(hn::GetLane(hn::SumOfLanes(d, weights))),
          static_cast<double>(hn::GetLane(hn::SumOfLanes(d, others)))};
}

template <class Rule, class T, class K>
void apply(const UpdateTensor<T>& tensor, const K& k, T rate) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const K numbers = k;
  for_vectors<Rule::kTargets, Rule::kApplied[0], Rule::kApplied[1]>(
      d, tensor, numbers.factor, [&](V* x, V g, std::size_t) HWY_ATTR { Rule::apply(d, x, g, numbers, rate); });
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
