#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/exponential.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/erf-inl.h"
#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/map-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"
#include "starling/kernels/cpu/simd/power-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

struct Exp : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return exp_vec(d, x);
  }
};
struct Expm1 : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return expm1_vec(d, x);
  }
};
struct Log : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return log_vec(d, x);
  }
};
struct Log1p : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return log1p_vec(d, x);
  }
};
struct Log2 : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return log2_vec(d, x);
  }
};
struct Sinh : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return sinh_vec(d, x);
  }
};
struct Cosh : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return cosh_vec(d, x);
  }
};
struct Tanh : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return tanh_vec(d, x);
  }
};
struct Sigmoid : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return sigmoid_vec(d, x);
  }
};
struct Erf : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return erf_vec(d, x);
  }
};
struct Pow : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b, const double*) const {
    return pow_vec(d, a, b);
  }
};
struct TanhBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V y, const double*) const {
    return hn::Mul(dy, hn::NegMulAdd(y, y, hn::Set(d, 1)));
  }
};
struct SigmoidBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V y, const double*) const {
    return hn::Mul(dy, hn::Mul(y, hn::Sub(hn::Set(d, 1), y)));
  }
};

void add_blocks(BlockTable& table) {
  add_float<Exp>(table, "exp");
  add_float<Expm1>(table, "expm1");
  add_float<Log>(table, "log");
  add_float<Log1p>(table, "log1p");
  add_float<Log2>(table, "log2");
  add_float<Sinh>(table, "sinh");
  add_float<Cosh>(table, "cosh");
  add_float<Tanh>(table, "tanh");
  add_float<Sigmoid>(table, "sigmoid");
  add_float<Erf>(table, "erf");
  add_float<Pow>(table, "pow");
  add_float<TanhBackward>(table, "tanh_backward");
  add_float<SigmoidBackward>(table, "sigmoid_backward");
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
STARLING_REGISTER_BLOCKS(exponential, add_blocks);
}  // namespace starling::kernels
#endif
