// One step of each rule of ops/def/update.h on vectors: x[0] is the weight, the rest are states in their order.
#if defined(STARLING_KERNELS_CPU_SIMD_UPDATE_RULES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_UPDATE_RULES_INL_H
#undef STARLING_KERNELS_CPU_SIMD_UPDATE_RULES_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_UPDATE_RULES_INL_H
#endif

#include <hwy/highway.h>

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

// Update rules by their constants; flags that change a rule's states are template arguments.
template <bool State>
struct MomentumRule {
  static constexpr std::size_t kTargets = State ? 2 : 1;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    g = with_decay(d, g, x[0], k.l2);
    if constexpr (State) {
      x[1] = hn::MulAdd(hn::Set(d, k.momentum), x[1], g);
      g = mix(d, k.of_g, g, k.of_v, x[1]);
    }
    x[0] = less_step(d, x[0], g, k.lr);
  }
};

struct AdagradRule {
  static constexpr std::size_t kTargets = 2;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    g = with_decay(d, g, x[0], k.l2);
    x[1] = hn::MulAdd(g, g, x[1]);
    x[0] = less_step(d, x[0], hn::Div(g, hn::Add(hn::Sqrt(x[1]), hn::Set(d, k.eps))), k.lr);
  }
};

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

template <bool Amsgrad>
struct AdamRule {
  static constexpr std::size_t kTargets = Amsgrad ? 4 : 3;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    move_moments(d, x[1], x[2], with_decay(d, g, x[0], k.l2), k);
    V second = x[2];
    if constexpr (Amsgrad) second = x[3] = hn::Max(x[3], x[2]);
    x[0] = less_step(d, hn::Mul(x[0], hn::Set(d, k.keep)), hn::Div(x[1], deviation(d, second, k)), k.lr);
  }
};

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

struct AverageRule {
  static constexpr std::size_t kTargets = 1;
  template <class D, class V, class K>
  static HWY_INLINE void step(D d, V* x, V g, const K& k) {
    x[0] = mix(d, k.keep, x[0], k.lr, g);
  }
};

// Two-pass rules: measure() may update states and returns the value whose squares are summed beside the weights';
// apply() takes the step at the rate computed from both sums. kMeasured and kApplied are the ranges of targets that
// each one changes.
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

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
