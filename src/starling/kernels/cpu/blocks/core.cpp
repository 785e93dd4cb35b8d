#include "starling/kernels/cpu/simd/targets.h"
#include "starling/kernels/cpu/simd/vector_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/core.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/map-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {
namespace {

struct Unary {
  static constexpr int kArity = 1;
};
struct Binary {
  static constexpr int kArity = 2;
};

struct Add : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Add(a, b);
  }
};
struct Sub : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Sub(a, b);
  }
};
struct Mul : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Mul(a, b);
  }
};
struct Div : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Div(a, b);
  }
};
struct Maximum : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return max_nan(a, b);
    return hn::Max(a, b);
  }
};
struct Minimum : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return min_nan(a, b);
    return hn::Min(a, b);
  }
};

struct Eq : Binary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V a, V b, const double*) const {
    return hn::Eq(a, b);
  }
};
struct Ne : Binary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V a, V b, const double*) const {
    return hn::Ne(a, b);
  }
};
struct Lt : Binary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V a, V b, const double*) const {
    return hn::Lt(a, b);
  }
};
struct Le : Binary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V a, V b, const double*) const {
    // Highway has no ordered comparison with equality for 64-bit integers on every target.
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return hn::Le(a, b);
    return hn::Not(hn::Lt(b, a));
  }
};
struct Gt : Binary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D d, V a, V b, const double* params) const {
    return Lt()(d, b, a, params);
  }
};
struct Ge : Binary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D d, V a, V b, const double* params) const {
    return Le()(d, b, a, params);
  }
};

struct Where {
  static constexpr int kArity = 3;
  static constexpr unsigned kBoolInputs = 1;
  template <class D, class V>
  HWY_INLINE V operator()(D, hn::Mask<D> condition, V a, V b, const double*) const {
    return hn::IfThenElse(condition, a, b);
  }
};

struct Neg : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    return hn::Neg(x);
  }
};
struct Exp : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return exp_vec(d, x);
  }
};
struct Log : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return log_vec(d, x);
  }
};
struct Tanh : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return tanh_vec(d, x);
  }
};
struct Sigmoid : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return sigmoid_vec(d, x);
  }
};
struct Relu : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
};
struct Sqrt : Unary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    return hn::Sqrt(x);
  }
};

struct ReluBackward : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V y, const double*) const {
    return hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), dy);
  }
};
struct TanhBackward : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V y, const double*) const {
    return hn::Mul(dy, hn::NegMulAdd(y, y, hn::Set(d, 1)));
  }
};
struct SigmoidBackward : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V y, const double*) const {
    return hn::Mul(dy, hn::Mul(y, hn::Sub(hn::Set(d, 1), y)));
  }
};
struct SqrtBackward : Binary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V dy, V y, const double*) const {
    return hn::Div(dy, hn::Add(y, y));
  }
};

template <class F>
void add_any(BlockTable& table, std::string_view name) {
  table.add(make_block<F, float, double, std::int32_t, std::int64_t>(name));
}

template <class F>
void add_float(BlockTable& table, std::string_view name) {
  table.add(make_block<F, float, double>(name));
}

void add_blocks(BlockTable& table) {
  add_any<Add>(table, "add");
  add_any<Sub>(table, "sub");
  add_any<Mul>(table, "mul");
  add_any<Neg>(table, "neg");
  add_any<Maximum>(table, "maximum");
  add_any<Minimum>(table, "minimum");
  add_any<Eq>(table, "eq");
  add_any<Ne>(table, "ne");
  add_any<Lt>(table, "lt");
  add_any<Le>(table, "le");
  add_any<Gt>(table, "gt");
  add_any<Ge>(table, "ge");
  add_any<Where>(table, "where");
  add_float<Div>(table, "div");
  add_float<Exp>(table, "exp");
  add_float<Log>(table, "log");
  add_float<Tanh>(table, "tanh");
  add_float<Sigmoid>(table, "sigmoid");
  add_float<Relu>(table, "relu");
  add_float<Sqrt>(table, "sqrt");
  add_float<ReluBackward>(table, "relu_backward");
  add_float<TanhBackward>(table, "tanh_backward");
  add_float<SigmoidBackward>(table, "sigmoid_backward");
  add_float<SqrtBackward>(table, "sqrt_backward");
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {
namespace {
HWY_EXPORT(add_blocks);
}  // namespace

void register_block_core(BlockTable& table);
void register_block_core(BlockTable& table) { HWY_DYNAMIC_DISPATCH(add_blocks)(table); }

}  // namespace starling
#endif
