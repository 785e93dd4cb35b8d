#include "starling/kernels/cpu/norm/normalize_relu.h"

#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/norm/normalize_relu.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/norm/normalize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T, bool kResidual>
struct ForwardBody {
  using V = hn::Vec<hn::ScalableTag<T>>;
  V mean, scale, shift;
  const T* x = nullptr;
  const T* residual = nullptr;
  T* y = nullptr;
  template <int, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    V v = hn::MulAdd(hn::Sub(lane.load(x + i), mean), scale, shift);
    if constexpr (kResidual) v = hn::Add(v, lane.load(residual + i));
    lane.store(hn::IfThenZeroElse(hn::Lt(v, hn::Zero(lane.d)), v), y + i);
  }
};

template <bool kResidual, class T>
void forward_as(const T* x, const T* residual, T* y, const Runs& runs, T mean, T scale, T shift) {
  const hn::ScalableTag<T> d;
  ForwardBody<T, kResidual> body{hn::Set(d, mean), hn::Set(d, scale), hn::Set(d, shift)};
  for (std::int64_t r = 0; r < runs.count; ++r) {
    body.x = x + r * runs.stride;
    if constexpr (kResidual) body.residual = residual + r * runs.stride;
    body.y = y + r * runs.stride;
    for_vectors<T>(runs.length, body);
  }
}

template <class T>
void forward(const T* x, const T* residual, T* y, const Runs& runs, T mean, T scale, T shift) {
  residual ? forward_as<true>(x, residual, y, runs, mean, scale, shift)
           : forward_as<false>(x, residual, y, runs, mean, scale, shift);
}

template <class T>
struct DotsBody {
  using V = hn::Vec<hn::ScalableTag<T>>;
  V centre;
  const T* dy = nullptr;
  const T* y = nullptr;
  const T* x = nullptr;
  TwoSums<T> sums{};
  template <int Set, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    // y is loaded as 0 beyond the end, which masks the gradient.
    const V g = hn::IfThenElseZero(hn::Gt(lane.load(y + i), hn::Zero(lane.d)), lane.load(dy + i));
    sums.template first<Set>() = hn::Add(sums.template first<Set>(), g);
    sums.template second<Set>() = hn::MulAdd(g, hn::Sub(lane.load(x + i), centre), sums.template second<Set>());
  }
};

template <class T>
void dots(const T* dy, const T* y, const T* x, const Runs& runs, T centre, double* sum, double* dot) {
  constexpr std::int64_t kRun = 4096;  // elements summed in T
  DotsBody<T> body;
  body.centre = hn::Set(hn::ScalableTag<T>(), centre);
  body.sums.clear();
  *sum = *dot = 0;
  std::int64_t since = 0;
  for (std::int64_t r = 0; r < runs.count; ++r) {
    for (std::int64_t i = 0; i < runs.length; i += kRun) {
      const std::int64_t n = std::min(kRun, runs.length - i), at = r * runs.stride + i;
      if (since + n > kRun) {
        body.sums.flush(sum, dot);
        since = 0;
      }
      body.dy = dy + at;
      body.y = y + at;
      body.x = x + at;
      for_vectors<T>(n, body);
      since += n;
    }
  }
  body.sums.flush(sum, dot);
}

template <class T>
struct BackwardBody {
  using V = hn::Vec<hn::ScalableTag<T>>;
  V a, mean, b, c;
  const T* dy = nullptr;
  const T* y = nullptr;
  const T* x = nullptr;
  T* dx = nullptr;
  template <int, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    const V through = hn::MulAdd(hn::Sub(lane.load(x + i), mean), b, c);
    const V g = hn::IfThenElseZero(hn::Gt(lane.load(y + i), hn::Zero(lane.d)), lane.load(dy + i));
    lane.store(hn::MulAdd(g, a, through), dx + i);
  }
};

template <class T>
void backward(const T* dy, const T* y, const T* x, T* dx, const Runs& runs, T a, T mean, T b, T c) {
  const hn::ScalableTag<T> d;
  BackwardBody<T> body{hn::Set(d, a), hn::Set(d, mean), hn::Set(d, b), hn::Set(d, c)};
  for (std::int64_t r = 0; r < runs.count; ++r) {
    body.dy = dy + r * runs.stride;
    body.y = y + r * runs.stride;
    body.x = x + r * runs.stride;
    body.dx = dx + r * runs.stride;
    for_vectors<T>(runs.length, body);
  }
}

template <class T>
NormalizeReluFns<T> fns() {
  return {forward<T>, dots<T>, backward<T>};
}
STARLING_NAME_FNS(NormalizeReluFns);

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

STARLING_EXPORT_FNS(NormalizeReluFns);

}  // namespace

template <class T>
NormalizeReluFns<T> normalize_relu_fns() {
  return dispatched<T>();
}

template NormalizeReluFns<float> normalize_relu_fns();
template NormalizeReluFns<double> normalize_relu_fns();

}  // namespace starling::kernels
#endif
