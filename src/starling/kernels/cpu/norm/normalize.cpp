#include "starling/kernels/cpu/norm/normalize.h"

#include <algorithm>

#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/norm/normalize.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/norm/normalize-inl.h"

#ifndef STARLING_KERNELS_CPU_SIMD_NORMALIZE_ONCE
#define STARLING_KERNELS_CPU_SIMD_NORMALIZE_ONCE
namespace starling::kernels {
// Elements summed in T before they are added in double, and elements per chunk of moments (they stay in cache).
inline constexpr std::int64_t kNormalizeRun = 4096;
inline constexpr std::int64_t kNormalizeChunk = 4096;
}  // namespace starling::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T>
struct SumBody {
  const T* x = nullptr;
  TwoSums<T> sums;
  template <int Set, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    sums.template first<Set>() = hn::Add(sums.template first<Set>(), lane.load(x + i));
  }
};

template <class T>
struct SquaresBody {
  hn::Vec<hn::ScalableTag<T>> centre;
  const T* x = nullptr;
  TwoSums<T> sums;
  template <int Set, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    const auto apart = lane.live(hn::Sub(lane.load(x + i), centre));
    sums.template first<Set>() = hn::Add(sums.template first<Set>(), apart);
    sums.template second<Set>() = hn::MulAdd(apart, apart, sums.template second<Set>());
  }
};

template <class T>
struct DotsBody {
  hn::Vec<hn::ScalableTag<T>> centre;
  const T* dy = nullptr;
  const T* x = nullptr;
  TwoSums<T> sums;
  template <int Set, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    const auto g = lane.load(dy + i);
    sums.template first<Set>() = hn::Add(sums.template first<Set>(), g);
    sums.template second<Set>() = hn::MulAdd(g, hn::Sub(lane.load(x + i), centre), sums.template second<Set>());
  }
};

template <class T>
struct WeightedDotsBody {
  hn::Vec<hn::ScalableTag<T>> centre;
  const T* dy = nullptr;
  const T* x = nullptr;
  const T* weight = nullptr;
  TwoSums<T> sums;
  template <int Set, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    const auto g = hn::Mul(lane.load(dy + i), lane.load(weight + i));
    sums.template first<Set>() = hn::Add(sums.template first<Set>(), g);
    sums.template second<Set>() = hn::MulAdd(g, hn::Sub(lane.load(x + i), centre), sums.template second<Set>());
  }
};

// Runs body over all runs, adding its sums to doubles before they grow long.
template <class T, class Body>
HWY_INLINE void sum_runs(const T* x, const T* dy, const Runs& runs, Body& body, double* first, double* second) {
  *first = *second = 0;
  body.sums.clear();
  std::int64_t since = 0;
  for (std::int64_t r = 0; r < runs.count; ++r) {
    for (std::int64_t i = 0; i < runs.length; i += kNormalizeRun) {
      const std::int64_t n = std::min(kNormalizeRun, runs.length - i);
      if (since + n > kNormalizeRun) {
        body.sums.flush(first, second);
        since = 0;
      }
      body.x = x + r * runs.stride + i;
      if constexpr (requires { body.dy; }) body.dy = dy + r * runs.stride + i;
      for_vectors<T>(n, body);
      since += n;
    }
  }
  body.sums.flush(first, second);
}

template <class T>
T chunk_mean(const T* x, const Runs& runs) {
  double total = 0, unused = 0;
  SumBody<T> sum;
  sum_runs(x, static_cast<const T*>(nullptr), runs, sum, &total, &unused);
  return static_cast<T>(total / static_cast<double>(runs.count * runs.length));
}

// Merges the moments of a chunk in one pass: differences from the mean so far, corrected by their own sum. The first
// chunk's mean takes a pass of its own. A chunk far from the mean is rounded more coarsely, but then its distance
// outweighs its variance.
template <class T>
void add_chunk(Moments& all, const T* x, const Runs& runs) {
  const double count = static_cast<double>(runs.count * runs.length);
  double apart = 0, squares = 0;
  const T centre = all.count > 0 ? static_cast<T>(all.mean) : chunk_mean(x, runs);
  SquaresBody<T> body;
  body.centre = hn::Set(hn::ScalableTag<T>(), centre);
  sum_runs(x, static_cast<const T*>(nullptr), runs, body, &apart, &squares);
  const double m2 = squares - apart * apart / count;
  all.add({count, static_cast<double>(centre) + apart / count, m2 < 0 ? 0.0 : m2});
}

template <class T>
void moments(const T* x, const Runs& runs, double* mean, double* m2) {
  Moments all;
  if (runs.length >= kNormalizeChunk) {
    for (std::int64_t r = 0; r < runs.count; ++r) {
      for (std::int64_t i = 0; i < runs.length; i += kNormalizeChunk)
        add_chunk(all, x + r * runs.stride + i, Runs{1, 0, std::min(kNormalizeChunk, runs.length - i)});
    }
  } else {
    const std::int64_t some = std::max<std::int64_t>(kNormalizeChunk / std::max<std::int64_t>(runs.length, 1), 1);
    for (std::int64_t r = 0; r < runs.count; r += some)
      add_chunk(all, x + r * runs.stride, Runs{std::min(some, runs.count - r), runs.stride, runs.length});
  }
  *mean = all.mean;
  *m2 = all.m2;
}

template <class T>
void dots(const T* dy, const T* x, const Runs& runs, T centre, double* sum, double* dot) {
  DotsBody<T> body;
  body.centre = hn::Set(hn::ScalableTag<T>(), centre);
  sum_runs(x, dy, runs, body, sum, dot);
}

template <class T>
struct AffineBody {
  using V = hn::Vec<hn::ScalableTag<T>>;
  V mean, scale, shift;
  const T* x = nullptr;
  T* y = nullptr;
  template <int, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    lane.store(hn::MulAdd(hn::Sub(lane.load(x + i), mean), scale, shift), y + i);
  }
};

template <class T>
void affine(const T* x, T* y, const Runs& runs, T mean, T scale, T shift) {
  const hn::ScalableTag<T> d;
  AffineBody<T> body{hn::Set(d, mean), hn::Set(d, scale), hn::Set(d, shift)};
  for (std::int64_t r = 0; r < runs.count; ++r) {
    body.x = x + r * runs.stride;
    body.y = y + r * runs.stride;
    for_vectors<T>(runs.length, body);
  }
}

template <class T>
struct AffineBackBody {
  using V = hn::Vec<hn::ScalableTag<T>>;
  V a, mean, b, c;
  const T* dy = nullptr;
  const T* x = nullptr;
  T* dx = nullptr;
  template <int, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    const auto through = hn::MulAdd(hn::Sub(lane.load(x + i), mean), b, c);
    lane.store(hn::MulAdd(lane.load(dy + i), a, through), dx + i);
  }
};

template <class T>
void affine_back(const T* dy, const T* x, T* dx, const Runs& runs, T a, T mean, T b, T c) {
  const hn::ScalableTag<T> d;
  AffineBackBody<T> body{hn::Set(d, a), hn::Set(d, mean), hn::Set(d, b), hn::Set(d, c)};
  for (std::int64_t r = 0; r < runs.count; ++r) {
    body.dy = dy + r * runs.stride;
    body.x = x + r * runs.stride;
    body.dx = dx + r * runs.stride;
    for_vectors<T>(runs.length, body);
  }
}

template <class T>
void dots_each(const T* dy, const T* x, std::int64_t channels, std::int64_t length, T centre, double* sum,
               double* dot) {
  for (std::int64_t k = 0; k < channels; ++k, dy += length, x += length) {
    if (length > kNormalizeRun) {
      dots(dy, x, Runs{1, 0, length}, centre, &sum[k], &dot[k]);
      continue;
    }
    DotsBody<T> body;
    body.centre = hn::Set(hn::ScalableTag<T>(), centre);
    body.dy = dy;
    body.x = x;
    body.sums.clear();
    sum[k] = dot[k] = 0;
    for_vectors<T>(length, body);
    body.sums.flush(&sum[k], &dot[k]);
  }
}

template <class T>
void affine_each(const T* x, T* y, std::int64_t channels, std::int64_t length, T mean, T scale, const T* weight,
                 const T* shift) {
  const hn::ScalableTag<T> d;
  for (std::int64_t k = 0; k < channels; ++k, x += length, y += length) {
    const T own = weight != nullptr ? scale * weight[k] : scale, move = shift != nullptr ? shift[k] : T{0};
    AffineBody<T> body{hn::Set(d, mean), hn::Set(d, own), hn::Set(d, move), x, y};
    for_vectors<T>(length, body);
  }
}

template <class T>
void affine_back_each(const T* dy, const T* x, T* dx, std::int64_t channels, std::int64_t length, T a, const T* weight,
                      T mean, T b, T c) {
  const hn::ScalableTag<T> d;
  for (std::int64_t k = 0; k < channels; ++k, dy += length, x += length, dx += length) {
    const T own = weight != nullptr ? a * weight[k] : a;
    AffineBackBody<T> body{hn::Set(d, own), hn::Set(d, mean), hn::Set(d, b), hn::Set(d, c), dy, x, dx};
    for_vectors<T>(length, body);
  }
}

template <class T, bool Weight, bool Shift>
struct RowBody {
  using V = hn::Vec<hn::ScalableTag<T>>;
  V mean, scale;
  const T* x;
  T* y;
  const T* weight;
  const T* shift;
  template <int, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    V v = hn::Mul(hn::Sub(lane.load(x + i), mean), scale);
    if constexpr (Weight && Shift)
      v = hn::MulAdd(v, lane.load(weight + i), lane.load(shift + i));
    else if constexpr (Weight)
      v = hn::Mul(v, lane.load(weight + i));
    lane.store(v, y + i);
  }
};

template <class T>
void row(const T* x, T* y, std::int64_t n, T mean, T scale, const T* weight, const T* shift) {
  const hn::ScalableTag<T> d;
  const auto run = [&](auto body) HWY_ATTR { for_vectors<T>(n, body); };
  if (weight != nullptr && shift != nullptr)
    run(RowBody<T, true, true>{hn::Set(d, mean), hn::Set(d, scale), x, y, weight, shift});
  else if (weight != nullptr)
    run(RowBody<T, true, false>{hn::Set(d, mean), hn::Set(d, scale), x, y, weight, shift});
  else
    run(RowBody<T, false, false>{hn::Set(d, mean), hn::Set(d, scale), x, y, weight, shift});
}

template <class T>
void row_dots(const T* dy, const T* x, const T* weight, std::int64_t n, T mean, double* sum, double* dot) {
  if (weight == nullptr) return dots(dy, x, Runs{1, 0, n}, mean, sum, dot);
  *sum = *dot = 0;
  WeightedDotsBody<T> body;
  body.centre = hn::Set(hn::ScalableTag<T>(), mean);
  body.sums.clear();
  for (std::int64_t i = 0; i < n; i += kNormalizeRun) {
    body.dy = dy + i;
    body.x = x + i;
    body.weight = weight + i;
    for_vectors<T>(std::min(kNormalizeRun, n - i), body);
    body.sums.flush(sum, dot);
  }
}

template <class T, bool Shift>
struct RowBackBody {
  using V = hn::Vec<hn::ScalableTag<T>>;
  V a, mean, b, c;
  const T* dy;
  const T* x;
  const T* weight;
  T* dx;
  T* weight_sum;
  T* shift_sum;
  template <int, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    const V g = lane.load(dy + i), apart = hn::Sub(lane.load(x + i), mean);
    const V ga = hn::Mul(g, a);
    lane.store(hn::MulAdd(ga, lane.load(weight + i), hn::MulAdd(apart, b, c)), dx + i);
    lane.store(hn::MulAdd(ga, apart, lane.load(weight_sum + i)), weight_sum + i);
    if constexpr (Shift) lane.store(hn::Add(g, lane.load(shift_sum + i)), shift_sum + i);
  }
};

template <class T>
void row_back(const T* dy, const T* x, const T* weight, T* dx, std::int64_t n, T a, T mean, T b, T c, T* weight_sum,
              T* shift_sum) {
  if (weight == nullptr) return affine_back(dy, x, dx, Runs{1, 0, n}, a, mean, b, c);
  const hn::ScalableTag<T> d;
  const auto run = [&](auto body) HWY_ATTR { for_vectors<T>(n, body); };
  if (shift_sum != nullptr)
    run(RowBackBody<T, true>{hn::Set(d, a), hn::Set(d, mean), hn::Set(d, b), hn::Set(d, c), dy, x, weight, dx,
                             weight_sum, shift_sum});
  else
    run(RowBackBody<T, false>{hn::Set(d, a), hn::Set(d, mean), hn::Set(d, b), hn::Set(d, c), dy, x, weight, dx,
                              weight_sum, nullptr});
}

template <class T>
struct ColumnSumBody {
  const T* x;
  T* sum;
  template <int, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    lane.store(hn::Add(lane.load(sum + i), lane.load(x + i)), sum + i);
  }
};

template <class T>
struct ColumnDotsBody {
  const T* dy;  // null: x - mean itself
  const T* x;
  const T* mean;
  T* sum;
  T* dot;
  template <int, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    const auto apart = hn::Sub(lane.load(x + i), lane.load(mean + i));
    const auto g = dy != nullptr ? lane.load(dy + i) : apart;
    lane.store(hn::Add(lane.load(sum + i), g), sum + i);
    lane.store(hn::MulAdd(g, apart, lane.load(dot + i)), dot + i);
  }
};

template <class T>
void column_moments(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t cols, double* mean, double* m2) {
  constexpr std::int64_t kRows = 64;
  alignas(64) T centre[kMomentColumns];
  alignas(64) T sum[kMomentColumns];
  alignas(64) T dot[kMomentColumns];
  std::fill_n(mean, cols, 0.0);
  std::fill_n(m2, cols, 0.0);
  for (std::int64_t r = 0; r < rows; r += kRows) {
    const std::int64_t some = std::min(kRows, rows - r);
    const double count = static_cast<double>(some);
    const T* block = x + r * stride;
    std::fill_n(centre, cols, T{0});
    for (std::int64_t k = 0; k < some; ++k) {
      ColumnSumBody<T> body{block + k * stride, centre};
      for_vectors<T>(cols, body);
    }
    for (std::int64_t c = 0; c < cols; ++c) centre[c] /= static_cast<T>(some);
    std::fill_n(sum, cols, T{0});
    std::fill_n(dot, cols, T{0});
    for (std::int64_t k = 0; k < some; ++k) {
      ColumnDotsBody<T> body{nullptr, block + k * stride, centre, sum, dot};
      for_vectors<T>(cols, body);
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      const double apart = static_cast<double>(sum[c]), squares = static_cast<double>(dot[c]) - apart * apart / count;
      Moments all{static_cast<double>(r), mean[c], m2[c]};
      all.add({count, static_cast<double>(centre[c]) + apart / count, squares < 0 ? 0.0 : squares});
      mean[c] = all.mean;
      m2[c] = all.m2;
    }
  }
}

template <class T>
void column_dots(const T* dy, const T* x, std::int64_t rows, std::int64_t stride, std::int64_t cols, const T* mean,
                 double* sum, double* dot) {
  constexpr std::int64_t kRows = 256;
  alignas(64) T some_sum[kMomentColumns];
  alignas(64) T some_dot[kMomentColumns];
  std::fill_n(sum, cols, 0.0);
  std::fill_n(dot, cols, 0.0);
  for (std::int64_t r = 0; r < rows; r += kRows) {
    std::fill_n(some_sum, cols, T{0});
    std::fill_n(some_dot, cols, T{0});
    for (std::int64_t k = r; k < std::min(r + kRows, rows); ++k) {
      ColumnDotsBody<T> body{dy + k * stride, x + k * stride, mean, some_sum, some_dot};
      for_vectors<T>(cols, body);
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      sum[c] += static_cast<double>(some_sum[c]);
      dot[c] += static_cast<double>(some_dot[c]);
    }
  }
}

template <class T>
struct ColumnAffineBody {
  const T* dy;
  const T* x;
  T* dx;
  const T* a;
  const T* mean;
  const T* b;
  const T* c;
  template <int, class L>
  HWY_INLINE void step(const L& lane, std::int64_t i) {
    auto v = hn::MulAdd(hn::Sub(lane.load(x + i), lane.load(mean + i)), lane.load(b + i), lane.load(c + i));
    if (dy != nullptr) v = hn::MulAdd(lane.load(dy + i), lane.load(a + i), v);
    lane.store(v, dx + i);
  }
};

template <class T>
void column_affine(const T* dy, const T* x, T* dx, std::int64_t n, const T* a, const T* mean, const T* b, const T* c) {
  ColumnAffineBody<T> body{dy, x, dx, a, mean, b, c};
  for_vectors<T>(n, body);
}

template <class T>
NormalizeFns<T> fns() {
  return {moments<T>, dots<T>,     affine<T>,   affine_back<T>,    dots_each<T>,   affine_each<T>,  affine_back_each<T>,
          row<T>,     row_dots<T>, row_back<T>, column_moments<T>, column_dots<T>, column_affine<T>};
}
STARLING_NAME_FNS(NormalizeFns);

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

STARLING_EXPORT_FNS(NormalizeFns);

}  // namespace

template <class T>
NormalizeFns<T> normalize_fns() {
  return dispatched<T>();
}

template NormalizeFns<float> normalize_fns();
template NormalizeFns<double> normalize_fns();

}  // namespace starling::kernels
#endif
