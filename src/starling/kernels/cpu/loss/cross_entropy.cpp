#include "starling/kernels/cpu/loss/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/loss/cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

// Losses of rows [begin, end); labels must be in range.
template <class T>
double forward_rows(const CrossEntropyArgs<T>& args, std::int64_t begin, std::int64_t end) {
  double total = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = args.logits + r * args.cols;
    T* p = args.probabilities == nullptr ? nullptr : args.probabilities + r * args.cols;
    const T max = row_max(x, args.cols);
    const T at_label = x[args.labels[r]];
    const T sum = row_exp_sum(x, p, max, args.cols);
    if (p != nullptr) row_map(p, p, p, args.cols, ScaleRow<T>{T{1} / sum});
    const double log_sum = std::log(static_cast<double>(sum));
    const double weight = args.row_weights == nullptr ? 1.0 : static_cast<double>(args.row_weights[r]);
    // A row of weight 0 counts nothing, even if it holds NaN.
    const double loss = weight == 0 ? 0 : weight * (static_cast<double>(max) - static_cast<double>(at_label) + log_sum);
    if (args.log_sum_exp != nullptr) args.log_sum_exp[r] = static_cast<T>(static_cast<double>(max) + log_sum);
    if (args.row_loss != nullptr) args.row_loss[r] = static_cast<T>(loss);
    total += loss;
  }
  return total;
}

template <class T>
struct ExpScaled {
  T shift;
  T scale;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V) const {
    return hn::Mul(exp_vec(d, hn::Sub(x, hn::Set(d, shift))), hn::Set(d, scale));
  }
};

// y = exp(x - shift) and its sum, in one pass; y may be x.
template <class T>
T exp_and_sum(const T* x, T* y, T shift, std::int64_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V s = hn::Set(d, shift);
  V sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V e = exp_vec(d, hn::Sub(hn::LoadU(d, x + i), s));
    hn::StoreU(e, d, y + i);
    sum = hn::Add(sum, e);
  }
  if (i < n) {
    const std::size_t rest = static_cast<std::size_t>(n - i);
    const V e = exp_vec(d, hn::Sub(load_tail(d, x + i, rest), s));
    store_tail(d, e, y + i, rest);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, rest), e));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// softmax(x) · scale from the log-sum-exp. One that is large was rounded by as much as shows in the probabilities:
// their sum, 1 but for that, makes it good. The second pass is over a row in the cache, and ordinary logits need none.
template <class T>
void softmax_row(const T* x, T* out, std::int64_t n, T lse, T scale) {
  constexpr T kLarge = 16;
  if (!(std::abs(lse) > kLarge)) return row_map(x, x, out, n, ExpScaled<T>{lse, scale});
  const T sum = exp_and_sum(x, out, lse, n);
  const bool rounded = sum > 0 && std::abs(sum - 1) <= std::abs(lse) * std::numeric_limits<T>::epsilon();
  row_map(out, out, out, n, ScaleRow<T>{rounded ? scale / sum : scale});
}

template <class T>
void backward_rows(const CrossEntropyArgs<T>& args, T scale, T* dlogits, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const T row_scale = args.row_weights == nullptr ? scale : scale * args.row_weights[r];
    T* out = dlogits + r * args.cols;
    if (args.probabilities != nullptr) {
      const T* p = args.probabilities + r * args.cols;
      row_map(p, p, out, args.cols, ScaleRow<T>{row_scale});
    } else {
      softmax_row(args.logits + r * args.cols, out, args.cols, args.log_sum_exp[r], row_scale);
    }
    out[args.labels[r]] -= row_scale;
  }
}

double forward_f32(const CrossEntropyArgs<float>& args, std::int64_t begin, std::int64_t end) {
  return forward_rows(args, begin, end);
}
double forward_f64(const CrossEntropyArgs<double>& args, std::int64_t begin, std::int64_t end) {
  return forward_rows(args, begin, end);
}
void backward_f32(const CrossEntropyArgs<float>& args, float scale, float* dx, std::int64_t begin, std::int64_t end) {
  backward_rows(args, scale, dx, begin, end);
}
void backward_f64(const CrossEntropyArgs<double>& args, double scale, double* dx, std::int64_t begin,
                  std::int64_t end) {
  backward_rows(args, scale, dx, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_f64);
HWY_EXPORT(backward_f32);
HWY_EXPORT(backward_f64);

constexpr std::int64_t kGrain = 8192;
// Most partial sums of rows, split by the shape alone, so that threads never change the total.
constexpr std::int64_t kMaxPieces = 64;

void check_labels(const std::int64_t* labels, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t r = 0; r < rows; ++r) {
    check(labels[r] >= 0 && labels[r] < cols, "[cross_entropy] expected labels in [0, {}), got {} in row {}", cols,
          labels[r], r);
  }
}

template <class T, class Fn>
double total_loss(const CrossEntropyArgs<T>& args, Fn forward) {
  check_labels(args.labels, args.rows, args.cols);
  const std::int64_t size = std::max(std::max<std::int64_t>(kGrain / std::max<std::int64_t>(args.cols, 1), 1),
                                     (args.rows + kMaxPieces - 1) / kMaxPieces);
  const std::int64_t pieces = (args.rows + size - 1) / size;
  double partial[kMaxPieces];
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      partial[p] = forward(args, p * size, std::min(args.rows, (p + 1) * size));
  });
  double total = 0;
  for (std::int64_t p = 0; p < pieces; ++p) total += partial[p];
  return total;
}

template <class T, class Fn>
void backward(const CrossEntropyArgs<T>& args, T scale, T* dlogits, Fn fn) {
  check(args.probabilities != nullptr || args.log_sum_exp != nullptr,
        "[cross_entropy_backward] expected probabilities or log_sum_exp, got neither");
  check_labels(args.labels, args.rows, args.cols);
  const std::int64_t grain = std::max<std::int64_t>(kGrain / std::max<std::int64_t>(args.cols, 1), 1);
  parallel_for(args.rows, grain, [&](std::int64_t begin, std::int64_t end) { fn(args, scale, dlogits, begin, end); });
}

}  // namespace

template <class T>
double cross_entropy(const CrossEntropyArgs<T>& args) {
  if constexpr (std::is_same_v<T, float>) {
    return total_loss(args, HWY_DYNAMIC_DISPATCH(forward_f32));
  } else {
    return total_loss(args, HWY_DYNAMIC_DISPATCH(forward_f64));
  }
}

template <class T>
void cross_entropy_backward(const CrossEntropyArgs<T>& args, T scale, T* dlogits) {
  if constexpr (std::is_same_v<T, float>) {
    backward(args, scale, dlogits, HWY_DYNAMIC_DISPATCH(backward_f32));
  } else {
    backward(args, scale, dlogits, HWY_DYNAMIC_DISPATCH(backward_f64));
  }
}

template double cross_entropy(const CrossEntropyArgs<float>&);
template double cross_entropy(const CrossEntropyArgs<double>&);
template void cross_entropy_backward(const CrossEntropyArgs<float>&, float, float*);
template void cross_entropy_backward(const CrossEntropyArgs<double>&, double, double*);

}  // namespace starling::kernels
#endif
