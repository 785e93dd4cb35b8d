#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/losses.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/map-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

struct Pairwise {
  static constexpr int kArity = 2;
};

template <class D>
HWY_INLINE hn::Vec<D> number(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

struct L1 : Pairwise {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Abs(hn::Sub(a, b));
  }
};
struct Huber : Pairwise {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b, const double* params) const {
    const V e = hn::Abs(hn::Sub(a, b)), half = number(d, 0.5), delta = number(d, params[0]);
    const V square = hn::Mul(hn::Mul(e, e), half);
    return hn::IfThenElse(hn::Le(e, delta), square, hn::Mul(delta, hn::NegMulAdd(half, delta, e)));
  }
};
struct SmoothL1 : Pairwise {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b, const double* params) const {
    const V e = hn::Abs(hn::Sub(a, b)), half = number(d, 0.5), beta = number(d, params[0]);
    const V square = hn::Div(hn::Mul(hn::Mul(e, e), half), beta);
    return hn::IfThenElse(hn::Lt(e, beta), square, hn::NegMulAdd(half, beta, e));
  }
};
struct Bce : Pairwise {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V p, V t, const double*) const {
    const V one = number(d, 1), least = number(d, -100);
    const V yes = max_nan(log_vec(d, p), least), no = max_nan(log_vec(d, hn::Sub(one, p)), least);
    return hn::Neg(hn::MulAdd(t, yes, hn::Mul(hn::Sub(one, t), no)));
  }
};
// With l = log(1 + exp(-|x|)): -log sigmoid(x) is l, plus |x| below 0; -log(1 - sigmoid(x)) is l, plus |x| above 0. The
// multiples of |x| are taken together first, as l is lost beside them.
struct BceLogits {
  static constexpr int kArity = 3;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V t, V w, const double*) const {
    const V one = number(d, 1), size = hn::Abs(x);
    const V share = hn::MulAdd(hn::Sub(w, one), t, one);
    const V linear = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(w, t), hn::Sub(one, t));
    return hn::MulAdd(linear, size, hn::Mul(share, log1p_vec(d, exp_vec(d, hn::Neg(size)))));
  }
};
struct KlDiv : Pairwise {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V t, const double* params) const {
    if (params[0] != 0) return hn::Mul(exp_vec(d, t), hn::Sub(t, x));
    const V loss = hn::Mul(t, hn::Sub(log_vec(d, t), x));
    return hn::IfThenZeroElse(hn::Eq(t, hn::Zero(d)), loss);
  }
};
struct Hinge : Pairwise {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V t, const double* params) const {
    const V inside = hn::NegMulAdd(t, x, number(d, params[0]));
    return hn::IfThenZeroElse(hn::Lt(inside, hn::Zero(d)), inside);
  }
};

void add_losses(BlockTable& table) {
  add_float<L1>(table, "l1_loss");
  add_float<Huber>(table, "huber_loss");
  add_float<SmoothL1>(table, "smooth_l1_loss");
  add_float<Bce>(table, "bce_loss");
  add_float<BceLogits>(table, "bce_with_logits_loss");
  add_float<KlDiv>(table, "kl_div_loss");
  add_float<Hinge>(table, "hinge_loss");
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
STARLING_REGISTER_BLOCKS(losses, add_losses);
}  // namespace starling::kernels
#endif
