#include "starling/kernels/cpu/norm/softmax.h"

#include <algorithm>
#include <cmath>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/norm/softmax.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/rows-inl.h"

#ifndef STARLING_KERNELS_CPU_SIMD_SOFTMAX_ONCE
#define STARLING_KERNELS_CPU_SIMD_SOFTMAX_ONCE
namespace starling::kernels {
// Row functions of one instruction set; forward functions ignore the second input.
template <class T>
struct SoftmaxFns {
  using Fn = void (*)(const T* a, const T* b, T* out, std::int64_t rows, std::int64_t cols);
  Fn softmax, log_softmax, softmax_backward, log_softmax_backward;
};
}  // namespace starling::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T>
struct LogSoftmaxRow {
  T max;
  T log_sum;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V) const {
    return hn::Sub(hn::Sub(x, hn::Set(d, max)), hn::Set(d, log_sum));
  }
};

struct Product {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Mul(a, b);
  }
};

struct First {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V) const {
    return a;
  }
};

template <class T>
struct SoftmaxBackwardRow {
  T dot;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V y) const {
    return hn::Mul(y, hn::Sub(dy, hn::Set(d, dot)));
  }
};

template <class T>
struct LogSoftmaxBackwardRow {
  T sum;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V y) const {
    return hn::NegMulAdd(exp_vec(d, y), hn::Set(d, sum), dy);
  }
};

template <class T>
void softmax_rows(const T* x, const T*, T* y, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const T sum = row_exp_sum(x, y, row_max(x, n), n);
    row_map(y, y, y, n, ScaleRow<T>{T{1} / sum});
  }
}

template <class T>
void log_softmax_rows(const T* x, const T*, T* y, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const T max = row_max(x, n);
    const T log_sum = std::log(row_exp_sum<T>(x, nullptr, max, n));
    row_map(x, x, y, n, LogSoftmaxRow<T>{max, log_sum});
  }
}

template <class T>
void softmax_backward_rows(const T* dy, const T* y, T* dx, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, dy += n, y += n, dx += n) {
    row_map(dy, y, dx, n, SoftmaxBackwardRow<T>{row_sum(dy, y, n, Product())});
  }
}

template <class T>
void log_softmax_backward_rows(const T* dy, const T* y, T* dx, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, dy += n, y += n, dx += n) {
    row_map(dy, y, dx, n, LogSoftmaxBackwardRow<T>{row_sum(dy, dy, n, First())});
  }
}

template <class T>
SoftmaxFns<T> fns() {
  return {softmax_rows<T>, log_softmax_rows<T>, softmax_backward_rows<T>, log_softmax_backward_rows<T>};
}
STARLING_NAME_FNS(SoftmaxFns);

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

STARLING_EXPORT_FNS(SoftmaxFns);

constexpr std::int64_t kGrain = 8192;

template <class T>
void for_rows(typename SoftmaxFns<T>::Fn fn, const T* a, const T* b, T* out, std::int64_t rows, std::int64_t cols) {
  if (cols <= 0) return;
  parallel_for(rows, std::max<std::int64_t>(kGrain / cols, 1), [&](std::int64_t begin, std::int64_t end) {
    fn(a + begin * cols, b + begin * cols, out + begin * cols, end - begin, cols);
  });
}

}  // namespace

template <class T>
void softmax(const T* x, T* y, std::int64_t rows, std::int64_t cols) {
  for_rows(dispatched<T>().softmax, x, x, y, rows, cols);
}

template <class T>
void log_softmax(const T* x, T* y, std::int64_t rows, std::int64_t cols) {
  for_rows(dispatched<T>().log_softmax, x, x, y, rows, cols);
}

template <class T>
void softmax_backward(const T* dy, const T* y, T* dx, std::int64_t rows, std::int64_t cols) {
  for_rows(dispatched<T>().softmax_backward, dy, y, dx, rows, cols);
}

template <class T>
void log_softmax_backward(const T* dy, const T* y, T* dx, std::int64_t rows, std::int64_t cols) {
  for_rows(dispatched<T>().log_softmax_backward, dy, y, dx, rows, cols);
}

template void softmax(const float*, float*, std::int64_t, std::int64_t);
template void softmax(const double*, double*, std::int64_t, std::int64_t);
template void log_softmax(const float*, float*, std::int64_t, std::int64_t);
template void log_softmax(const double*, double*, std::int64_t, std::int64_t);
template void softmax_backward(const float*, const float*, float*, std::int64_t, std::int64_t);
template void softmax_backward(const double*, const double*, double*, std::int64_t, std::int64_t);
template void log_softmax_backward(const float*, const float*, float*, std::int64_t, std::int64_t);
template void log_softmax_backward(const double*, const double*, double*, std::int64_t, std::int64_t);

}  // namespace starling::kernels
#endif
