#include "starling/kernels/cpu/norm/local_response_norm.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/norm/local_response_norm.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/math-inl.h"

#ifndef STARLING_KERNELS_CPU_LOCAL_RESPONSE_NORM_ONCE
#define STARLING_KERNELS_CPU_LOCAL_RESPONSE_NORM_ONCE
namespace starling::kernels {
// One call on columns [first, end) of one sample; pointers are the sample's.
template <class T>
struct ResponseCall {
  ChannelWindow window;
  ResponseNorm norm;
  const T* x = nullptr;
  const T* dy = nullptr;
  T* out = nullptr;
  T* room = nullptr;
};
template <class T>
struct ResponseFns {
  using Fn = void (*)(const ResponseCall<T>&, std::int64_t first, std::int64_t end);
  Fn sum, forward, backward;
};
}  // namespace starling::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class D, class V>
HWY_INLINE V inverse_power(D d, V base, double beta) {
  using T = hn::TFromD<D>;
  if (beta == 0.75) {
    const auto root = hn::Sqrt(base);
    return hn::Div(hn::Set(d, T{1}), hn::Mul(root, hn::Sqrt(root)));
  }
  return exp_vec(d, hn::Mul(hn::Set(d, static_cast<T>(-beta)), log_vec(d, base)));
}

// Σ f(channel) over the window of a channel.
template <class D, class F>
HWY_INLINE hn::Vec<D> window_sum(D d, const ChannelWindow& w, std::int64_t channel, std::int64_t before,
                                 std::int64_t after, const F& f) {
  const std::int64_t end = std::min(w.channels - 1, channel + after);
  auto sum = hn::Zero(d);
  for (std::int64_t c = std::max<std::int64_t>(0, channel - before); c <= end; ++c) sum = hn::Add(sum, f(c));
  return sum;
}

template <class D, class T>
HWY_INLINE hn::Vec<D> base_of(D d, const ResponseCall<T>& call, std::int64_t c, std::int64_t at) {
  const auto& w = call.window;
  const auto squares = window_sum(d, w, c, w.before, w.after, [&](std::int64_t ch) HWY_ATTR {
    const auto x = hn::LoadU(d, call.x + ch * w.inner + at);
    return hn::Mul(x, x);
  });
  return hn::MulAdd(squares, hn::Set(d, static_cast<T>(call.norm.rate)), hn::Set(d, static_cast<T>(call.norm.k)));
}

template <class D, class T>
HWY_INLINE void sum_columns(D d, const ResponseCall<T>& call, std::int64_t at) {
  const auto& w = call.window;
  for (std::int64_t c = 0; c < w.channels; ++c) {
    const auto sum = window_sum(d, w, c, w.before, w.after,
                                [&](std::int64_t ch) HWY_ATTR { return hn::LoadU(d, call.x + ch * w.inner + at); });
    hn::StoreU(sum, d, call.out + c * w.inner + at);
  }
}

template <class D, class T>
HWY_INLINE void norm_columns(D d, const ResponseCall<T>& call, std::int64_t at) {
  const auto& w = call.window;
  for (std::int64_t c = 0; c < w.channels; ++c) {
    const auto power = inverse_power(d, base_of(d, call, c, at), call.norm.beta);
    hn::StoreU(hn::Mul(hn::LoadU(d, call.x + c * w.inner + at), power), d, call.out + c * w.inner + at);
  }
}

// Backward pass in two steps: dy · power to dx and dy · x · power / base to scratch, then the gradient through the
// window sums.
template <class D, class T>
HWY_INLINE void norm_columns_backward(D d, const ResponseCall<T>& call, std::int64_t at) {
  const auto& w = call.window;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t c = 0; c < w.channels; ++c) {
    const auto base = base_of(d, call, c, at);
    const auto direct = hn::Mul(hn::LoadU(d, call.dy + c * w.inner + at), inverse_power(d, base, call.norm.beta));
    hn::StoreU(direct, d, call.out + c * w.inner + at);
    hn::StoreU(hn::Div(hn::Mul(direct, hn::LoadU(d, call.x + c * w.inner + at)), base), d, call.room + c * lanes);
  }
  const auto rate = hn::Set(d, static_cast<T>(-2 * call.norm.beta * call.norm.rate));
  for (std::int64_t c = 0; c < w.channels; ++c) {
    const auto through = window_sum(d, w, c, w.after, w.before,
                                    [&](std::int64_t ch) HWY_ATTR { return hn::LoadU(d, call.room + ch * lanes); });
    T* to = call.out + c * w.inner + at;
    const auto x = hn::Mul(hn::LoadU(d, call.x + c * w.inner + at), rate);
    hn::StoreU(hn::MulAdd(x, through, hn::LoadU(d, to)), d, to);
  }
}

template <class T, class Step>
HWY_INLINE void over(std::int64_t first, std::int64_t end, const Step& step) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 4> four;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d)), few = static_cast<std::int64_t>(hn::Lanes(four));
  for (; first + lanes <= end; first += lanes) step(d, first);
  for (; first + few <= end; first += few) step(four, first);
  for (; first < end; ++first) step(one, first);
}

template <class T>
void run_sum(const ResponseCall<T>& call, std::int64_t first, std::int64_t end) {
  over<T>(first, end, [&](auto d, std::int64_t at) HWY_ATTR { sum_columns(d, call, at); });
}
template <class T>
void run_forward(const ResponseCall<T>& call, std::int64_t first, std::int64_t end) {
  over<T>(first, end, [&](auto d, std::int64_t at) HWY_ATTR { norm_columns(d, call, at); });
}
template <class T>
void run_backward(const ResponseCall<T>& call, std::int64_t first, std::int64_t end) {
  over<T>(first, end, [&](auto d, std::int64_t at) HWY_ATTR { norm_columns_backward(d, call, at); });
}

template <class T>
ResponseFns<T> fns() {
  return {run_sum<T>, run_forward<T>, run_backward<T>};
}
STARLING_NAME_FNS(ResponseFns);

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

STARLING_EXPORT_FNS(ResponseFns);

constexpr std::int64_t kLanes = 64;  // at least the lanes of any float vector

// Splits work into pieces of columns that begin at a multiple of a vector within their sample.
template <class T>
void over_samples(const ChannelWindow& w, int threads, ResponseCall<T> call, typename ResponseFns<T>::Fn fn) {
  constexpr std::int64_t kColumns = 256;
  if (w.samples == 0 || w.channels == 0 || w.inner == 0) return;
  const std::int64_t blocks = (w.inner + kColumns - 1) / kColumns, items = w.samples * blocks;
  const std::int64_t worth = w.samples * w.channels * w.inner / 8192;
  const std::int64_t pieces = std::clamp<std::int64_t>(std::min(worth, items), 1, std::max(threads, 1));
  parallel_run(static_cast<int>(pieces), [&](int piece) {
    for (std::int64_t item = items * piece / pieces; item < items * (piece + 1) / pieces; ++item) {
      const std::int64_t sample = item / blocks * w.channels * w.inner, first = item % blocks * kColumns;
      ResponseCall<T> own = call;
      own.x += sample;
      own.out += sample;
      if (own.dy) own.dy += sample;
      if (own.room) own.room += piece * w.channels * kLanes;
      fn(own, first, std::min(first + kColumns, w.inner));
    }
  });
}

}  // namespace

template <class T>
void channel_window_sum(const ChannelWindow& w, const T* x, T* y, int threads) {
  over_samples<T>(w, threads, {.window = w, .norm = {}, .x = x, .out = y}, dispatched<T>().sum);
}

template <class T>
void response_norm(const ChannelWindow& w, const ResponseNorm& norm, const T* x, T* y, int threads) {
  over_samples<T>(w, threads, {.window = w, .norm = norm, .x = x, .out = y}, dispatched<T>().forward);
}

template <class T>
void response_norm_backward(const ChannelWindow& w, const ResponseNorm& norm, const T* dy, const T* x, T* dx, T* room,
                            int threads) {
  over_samples<T>(w, threads, {w, norm, x, dy, dx, room}, dispatched<T>().backward);
}

std::int64_t response_norm_room(const ChannelWindow& w, int threads) {
  return w.samples == 0 ? 0 : w.channels * kLanes * std::max(threads, 1);
}

template void channel_window_sum(const ChannelWindow&, const float*, float*, int);
template void channel_window_sum(const ChannelWindow&, const double*, double*, int);
template void response_norm(const ChannelWindow&, const ResponseNorm&, const float*, float*, int);
template void response_norm(const ChannelWindow&, const ResponseNorm&, const double*, double*, int);
template void response_norm_backward(const ChannelWindow&, const ResponseNorm&, const float*, const float*, float*,
                                     float*, int);
template void response_norm_backward(const ChannelWindow&, const ResponseNorm&, const double*, const double*, double*,
                                     double*, int);

}  // namespace starling::kernels
#endif
