#include "starling/kernels/cpu/fused/fused_run.h"

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/fused/fused_run.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/reduce/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class D>
HWY_INLINE hn::Vec<D> apply(D d, RunOp op, hn::Vec<D> a, hn::Vec<D> b) {
  switch (op) {
    case RunOp::add: return hn::Add(a, b);
    case RunOp::sub: return hn::Sub(a, b);
    case RunOp::sub_from: return hn::Sub(b, a);
    case RunOp::mul: return hn::Mul(a, b);
    case RunOp::div: return hn::Div(a, b);
    case RunOp::div_into: return hn::Div(b, a);
    case RunOp::maximum: return max_nan(a, b);
    case RunOp::minimum: return min_nan(a, b);
    case RunOp::relu: return hn::IfThenZeroElse(hn::Lt(a, hn::Zero(d)), a);
    case RunOp::relu_backward: return hn::IfThenElseZero(hn::Gt(b, hn::Zero(d)), a);
    case RunOp::gate: return hn::IfThenElseZero(hn::Gt(a, hn::Zero(d)), b);
    case RunOp::abs: return hn::Abs(a);
    case RunOp::neg: return hn::Neg(a);
    case RunOp::square: return hn::Mul(a, a);
    default: return hn::Sqrt(a);
  }
}

// Four vectors that go through a step together, so that the step is dispatched once for all of them.
template <class T>
struct Four {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  V a, b, c, d;
};

template <class T>
HWY_INLINE Four<T> load_four(const T* p, bool scalar) {
  const hn::ScalableTag<T> d;
  if (scalar) {
    const auto v = hn::Set(d, *p);
    return {v, v, v, v};
  }
  const auto lanes = hn::Lanes(d);
  return {hn::LoadU(d, p), hn::LoadU(d, p + lanes), hn::LoadU(d, p + 2 * lanes), hn::LoadU(d, p + 3 * lanes)};
}

template <RunOp Op, class T>
HWY_INLINE void step_four(Four<T>& x, const Four<T>& y) {
  const hn::ScalableTag<T> d;
  x.a = apply(d, Op, x.a, y.a);
  x.b = apply(d, Op, x.b, y.b);
  x.c = apply(d, Op, x.c, y.c);
  x.d = apply(d, Op, x.d, y.d);
}

template <class T>
HWY_INLINE void step_four(RunOp op, Four<T>& x, const Four<T>& y) {
  switch (op) {
    case RunOp::add: return step_four<RunOp::add>(x, y);
    case RunOp::sub: return step_four<RunOp::sub>(x, y);
    case RunOp::sub_from: return step_four<RunOp::sub_from>(x, y);
    case RunOp::mul: return step_four<RunOp::mul>(x, y);
    case RunOp::div: return step_four<RunOp::div>(x, y);
    case RunOp::div_into: return step_four<RunOp::div_into>(x, y);
    case RunOp::maximum: return step_four<RunOp::maximum>(x, y);
    case RunOp::minimum: return step_four<RunOp::minimum>(x, y);
    case RunOp::relu: return step_four<RunOp::relu>(x, y);
    case RunOp::relu_backward: return step_four<RunOp::relu_backward>(x, y);
    case RunOp::gate: return step_four<RunOp::gate>(x, y);
    case RunOp::abs: return step_four<RunOp::abs>(x, y);
    case RunOp::neg: return step_four<RunOp::neg>(x, y);
    case RunOp::square: return step_four<RunOp::square>(x, y);
    case RunOp::sqrt: return step_four<RunOp::sqrt>(x, y);
  }
}

template <class T>
HWY_INLINE void fold_four(FoldOp op, Four<T>& total, const Four<T>& x) {
  if (op == FoldOp::sum) return step_four<RunOp::add>(total, x);
  if (op == FoldOp::max) return step_four<RunOp::maximum>(total, x);
  step_four<RunOp::minimum>(total, x);
}

template <class T>
HWY_INLINE T identity(FoldOp op) {
  if (op == FoldOp::sum) return T{0};
  return op == FoldOp::max ? MaxOp::identity<T>() : MinOp::identity<T>();
}

template <class T>
double folded(FoldOp op, const Four<T>& x) {
  const hn::ScalableTag<T> d;
  if (op == FoldOp::sum)
    return static_cast<double>(fold_lanes<SumOp>(d, hn::Add(hn::Add(x.a, x.b), hn::Add(x.c, x.d))));
  if (op == FoldOp::max)
    return static_cast<double>(fold_lanes<MaxOp>(d, max_nan(max_nan(x.a, x.b), max_nan(x.c, x.d))));
  return static_cast<double>(fold_lanes<MinOp>(d, min_nan(min_nan(x.a, x.b), min_nan(x.c, x.d))));
}

// Runs the elements after the last whole four vectors, a vector at a time.
template <class T>
HWY_INLINE void run_rest(const RunCall& call, std::int64_t i, Four<T>& total) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto load = [&](const void* from, bool scalar, std::size_t count) HWY_ATTR {
    const T* p = static_cast<const T*>(from);
    return scalar ? hn::Set(d, *p) : load_tail(d, p + i, count);
  };
  for (; i < call.n; i += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, call.n - i));
    auto x = load(call.first, call.first_scalar, count);
    for (int s = 0; s < call.count; ++s) {
      const RunStep& step = call.steps[s];
      x = apply(d, step.op, x, step.operand ? load(step.operand, step.scalar, count) : x);
    }
    if (call.out) store_tail(d, x, static_cast<T*>(call.out) + i, count);
    if (!call.folds) continue;
    const auto live = hn::IfThenElse(hn::FirstN(d, count), x, hn::Set(d, identity<T>(call.fold)));
    if (call.fold == FoldOp::sum)
      total.a = hn::Add(total.a, live);
    else
      total.a = call.fold == FoldOp::max ? max_nan(total.a, live) : min_nan(total.a, live);
  }
}

template <class T>
double run(const RunCall& call) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto none = hn::Set(d, call.folds ? identity<T>(call.fold) : T{0});
  Four<T> total{none, none, none, none};
  const T* first = static_cast<const T*>(call.first);
  T* out = static_cast<T*>(call.out);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= call.n; i += 4 * lanes) {
    Four<T> x = load_four(first + (call.first_scalar ? 0 : i), call.first_scalar);
    for (int s = 0; s < call.count; ++s) {
      const RunStep& step = call.steps[s];
      const T* p = static_cast<const T*>(step.operand);
      if (!p) {
        step_four(step.op, x, x);
      } else {
        step_four(step.op, x, load_four(p + (step.scalar ? 0 : i), step.scalar));
      }
    }
    if (out) {
      hn::StoreU(x.a, d, out + i);
      hn::StoreU(x.b, d, out + i + lanes);
      hn::StoreU(x.c, d, out + i + 2 * lanes);
      hn::StoreU(x.d, d, out + i + 3 * lanes);
    }
    if (call.folds) fold_four(call.fold, total, x);
  }
  run_rest(call, i, total);
  return call.folds ? folded(call.fold, total) : 0.0;
}

RunFn fn(bool f64) { return f64 ? run<double> : run<float>; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {

HWY_EXPORT(fn);

RunFn run_fn(bool f64) { return HWY_DYNAMIC_DISPATCH(fn)(f64); }

std::optional<RunOp> run_op(std::string_view op, int place) {
  struct Name {
    std::string_view name;
    RunOp left, right;
  };
  constexpr Name names[] = {{"add", RunOp::add, RunOp::add},
                            {"sub", RunOp::sub, RunOp::sub_from},
                            {"mul", RunOp::mul, RunOp::mul},
                            {"div", RunOp::div, RunOp::div_into},
                            {"maximum", RunOp::maximum, RunOp::maximum},
                            {"minimum", RunOp::minimum, RunOp::minimum},
                            {"relu", RunOp::relu, RunOp::relu},
                            {"relu_backward", RunOp::relu_backward, RunOp::gate},
                            {"abs", RunOp::abs, RunOp::abs},
                            {"neg", RunOp::neg, RunOp::neg},
                            {"square", RunOp::square, RunOp::square},
                            {"sqrt", RunOp::sqrt, RunOp::sqrt}};
  for (const auto& [name, left, right] : names) {
    if (op == name) return place == 0 ? left : right;
  }
  return std::nullopt;
}

}  // namespace starling::kernels
#endif
