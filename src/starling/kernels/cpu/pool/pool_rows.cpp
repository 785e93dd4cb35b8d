#include <limits>

#include "starling/kernels/cpu/pool/pool.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/pool/pool_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Calls f(tap number, values) for the taps of neighbouring windows that begin at p, kStride apart. Loads stay within
// the windows: the last of an odd number of taps is loaded with its left neighbour.
template <int kStride, int kKernel, class D, class F>
HWY_INLINE void each_tap(D d, const float* p, std::int64_t kernel, const F& f) {
  const std::int64_t taps = kKernel > 0 ? kKernel : kernel;
  if constexpr (kStride == 1) {
    for (std::int64_t c = 0; c < taps; ++c) f(c, hn::LoadU(d, p + c));
  } else {
    hn::Vec<D> even, odd;
    for (std::int64_t c = 0; c + 2 <= taps; c += 2) {
      hn::LoadInterleaved2(d, p + c, even, odd);
      f(c, even);
      f(c + 1, odd);
    }
    if (taps % 2 == 1) {
      hn::LoadInterleaved2(d, p + taps - 2, even, odd);
      f(taps - 1, odd);
    }
  }
}

// One row of windows.
struct Row {
  const PoolWindows& w;
  const float* plane;
  const PoolSpan& d;
  const PoolSpan& h;

  // Calls f(offset of the row in the plane) for the rows that the windows cover.
  template <class F>
  HWY_INLINE void each(const F& f) const {
    for (std::int64_t i = d.begin; i < d.end; i += w.step[0]) {
      for (std::int64_t j = h.begin; j < h.end; j += w.step[1]) f((i * w.in[1] + j) * w.in[2]);
    }
  }
};

template <int kStride, int kKernel, bool kIndex, class D>
HWY_INLINE void max_block(D d, const Row& row, std::int64_t column, float* y, std::int32_t* index) {
  const hn::RebindToSigned<D> places;
  const std::int64_t start = column * kStride - row.w.padding;
  auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto sum = hn::Zero(d);  // NaN where any element is NaN
  const std::int64_t first = (row.d.begin * row.w.in[1] + row.h.begin) * row.w.in[2] + start;
  auto place = hn::Set(places, static_cast<std::int32_t>(first));
  row.each([&](std::int64_t at) HWY_ATTR {
    each_tap<kStride, kKernel>(d, row.plane + at + start, row.w.kernel, [&](std::int64_t c, auto v) HWY_ATTR {
      sum = hn::Add(sum, v);
      if constexpr (kIndex) {
        const auto lead = hn::Gt(v, best);
        place = hn::IfThenElse(hn::RebindMask(places, lead), hn::Set(places, static_cast<std::int32_t>(at + start + c)),
                               place);
      }
      best = hn::Max(best, v);
    });
  });
  hn::StoreU(best, d, y + column);
  if constexpr (kIndex) {
    const auto offsets = hn::Iota(places, 0);
    place = hn::Add(place, kStride == 1 ? offsets : hn::Add(offsets, offsets));
    hn::StoreU(place, places, index + column);
  }
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(sum)))) {  // also for both infinities; the naive loop is right for all
    for (std::int64_t i = column; i < column + static_cast<std::int64_t>(hn::Lanes(d)); ++i)
      max_window(row.w, row.plane, row.d, row.h, row.w.spans[2][static_cast<std::size_t>(i)], y + i,
                 kIndex ? index + i : nullptr);
  }
}

template <int kStride, int kKernel, class D>
HWY_INLINE void sum_block(D d, const Row& row, std::int64_t column, double divisor, float* y) {
  const std::int64_t start = column * kStride - row.w.padding;
  auto sum = hn::Zero(d);
  row.each([&](std::int64_t at) HWY_ATTR {
    each_tap<kStride, kKernel>(d, row.plane + at + start, row.w.kernel,
                               [&](std::int64_t, auto v) HWY_ATTR { sum = hn::Add(sum, v); });
  });
  hn::StoreU(hn::Mul(sum, hn::Set(d, static_cast<float>(1 / divisor))), d, y + column);
}

// Calls block(d, column) over the inner columns and one(column) over the others. The last vector of a row overlaps the
// one before it.
template <class Block, class One>
HWY_INLINE void over_columns(const PoolWindows& w, const Block& block, const One& one) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t L = HWY_LANES(float);
  const std::int64_t begin = w.inner_begin, end = w.inner_end;
  for (std::int64_t c = 0; c < begin; ++c) one(c);
  if (end - begin >= L) {
    std::int64_t c = begin;
    for (; c + L <= end; c += L) block(d, c);
    if (c < end) block(d, end - L);
  } else {
    std::int64_t c = begin;
    if constexpr (L > 8) {
      const hn::CappedTag<float, 8> eight;
      if (c + 8 <= end) block(eight, c), c += 8;
    }
    if constexpr (L > 4) {
      const hn::CappedTag<float, 4> four;
      for (; c + 4 <= end; c += 4) block(four, c);
      if (c < end && end - begin >= 4) block(four, end - 4), c = end;
    }
    for (; c < end; ++c) one(c);
  }
  for (std::int64_t c = end; c < w.out[2]; ++c) one(c);
}

template <int kStride, int kKernel, bool kIndex>
void max_planes(const PoolWindows& w, const float* x, float* y, std::int32_t* index, std::int64_t planes) {
  for (std::int64_t p = 0; p < planes; ++p, x += w.in_volume()) {
    for (const PoolSpan& d : w.spans[0]) {
      for (const PoolSpan& h : w.spans[1]) {
        const Row row{w, x, d, h};
        over_columns(
            w, [&](auto tag, std::int64_t c) HWY_ATTR { max_block<kStride, kKernel, kIndex>(tag, row, c, y, index); },
            [&](std::int64_t c) {
              max_window(w, x, d, h, w.spans[2][static_cast<std::size_t>(c)], y + c, kIndex ? index + c : nullptr);
            });
        y += w.out[2];
        if constexpr (kIndex) index += w.out[2];
      }
    }
  }
}

template <int kStride, int kKernel>
void sum_planes(const PoolWindows& w, const float* x, float* y, std::int64_t planes) {
  for (std::int64_t p = 0; p < planes; ++p, x += w.in_volume()) {
    for (const PoolSpan& d : w.spans[0]) {
      for (const PoolSpan& h : w.spans[1]) {
        const Row row{w, x, d, h};
        const double divisor = w.divisor > 0 ? w.divisor : d.count * h.count * static_cast<double>(w.kernel);
        over_columns(
            w, [&](auto tag, std::int64_t c) HWY_ATTR { sum_block<kStride, kKernel>(tag, row, c, divisor, y); },
            [&](std::int64_t c) { y[c] = mean_window(w, x, d, h, w.spans[2][static_cast<std::size_t>(c)]); });
        y += w.out[2];
      }
    }
  }
}

// Calls step(d, column) over a row with the widest vectors that fit, then narrower ones, since rows are short.
template <class Step>
HWY_INLINE void over_row(std::int64_t columns, const Step& step) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t L = HWY_LANES(float);
  std::int64_t c = 0;
  for (; c + L <= columns; c += L) step(d, c);
  if constexpr (L > 8) {
    const hn::CappedTag<float, 8> eight;
    for (; c + 8 <= columns; c += 8) step(eight, c);
  }
  if constexpr (L > 4) {
    const hn::CappedTag<float, 4> four;
    for (; c + 4 <= columns; c += 4) step(four, c);
  }
  const hn::CappedTag<float, 1> one;
  for (; c < columns; ++c) step(one, c);
}

// Max pooling with 2 × 2 windows, stride 2 and no padding, the common case. `first` is the index of the first window.
template <bool kIndex, class D>
HWY_INLINE void max_two(D d, const float* top, const float* bottom, std::int32_t first, std::int32_t width, float* y,
                        std::int32_t* index) {
  const hn::RebindToSigned<D> places;
  hn::Vec<D> a, b, c, e;
  hn::LoadInterleaved2(d, top, a, b);
  hn::LoadInterleaved2(d, bottom, c, e);
  const auto upper = hn::Max(a, b), lower = hn::Max(c, e);
  hn::StoreU(hn::Max(upper, lower), d, y);
  if constexpr (kIndex) {
    const auto one = hn::Set(places, 1), below = hn::Set(places, width);
    const auto in_upper = hn::IfThenElseZero(hn::RebindMask(places, hn::Gt(b, a)), one);
    const auto in_lower = hn::Add(below, hn::IfThenElseZero(hn::RebindMask(places, hn::Gt(e, c)), one));
    const auto offset = hn::IfThenElse(hn::RebindMask(places, hn::Gt(lower, upper)), in_lower, in_upper);
    const auto lanes = hn::Iota(places, 0);
    hn::StoreU(hn::Add(offset, hn::Add(hn::Add(lanes, lanes), hn::Set(places, first))), places, index);
  }
  const auto sum = hn::Add(hn::Add(a, b), hn::Add(c, e));
  if (HWY_LIKELY(hn::AllFalse(d, hn::IsNaN(sum)))) return;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(hn::Lanes(d)); ++i) {
    const float window[4] = {top[2 * i], top[2 * i + 1], bottom[2 * i], bottom[2 * i + 1]};
    int best = 0;
    for (int t = 1; t < 4; ++t) {
      if (window[t] > window[best] || (window[t] != window[t] && window[best] == window[best])) best = t;
    }
    y[i] = window[best];
    if constexpr (kIndex) index[i] = first + 2 * static_cast<std::int32_t>(i) + best % 2 + best / 2 * width;
  }
}

template <bool kIndex>
void max_two_planes(const PoolWindows& w, const float* x, float* y, std::int32_t* index, std::int64_t planes) {
  const std::int64_t width = w.in[2], columns = w.out[2];
  for (std::int64_t p = 0; p < planes; ++p, x += w.in_volume()) {
    for (std::int64_t r = 0; r < w.out[1]; ++r, y += columns, index += kIndex ? columns : 0) {
      const std::int64_t row = 2 * r * width;
      over_row(columns, [&](auto d, std::int64_t c) HWY_ATTR {
        const std::int64_t first = row + 2 * c;
        max_two<kIndex>(d, x + first, x + first + width, static_cast<std::int32_t>(first),
                        static_cast<std::int32_t>(width), y + c, kIndex ? index + c : nullptr);
      });
    }
  }
}

// True for complete 2 × 2 windows only; a last odd row or column belongs to none.
bool is_two(const PoolWindows& w) {
  const auto& rows = w.spans[1];
  return w.in[0] == 1 && w.out[0] == 1 && w.stride == 2 && w.kernel == 2 && w.padding == 0 && w.step[1] == 1 &&
         w.inner_begin == 0 && w.inner_end == w.out[2] && rows[0].begin == 0 && rows.back().end == 2 * w.out[1] &&
         rows[0].end == 2;
}

template <bool kIndex>
void max_any(const PoolWindows& w, const float* x, float* y, std::int32_t* index, std::int64_t planes) {
  if (is_two(w)) return max_two_planes<kIndex>(w, x, y, index, planes);
  if (w.stride == 1) return max_planes<1, 0, kIndex>(w, x, y, index, planes);
  if (w.kernel == 2) return max_planes<2, 2, kIndex>(w, x, y, index, planes);
  if (w.kernel == 3) return max_planes<2, 3, kIndex>(w, x, y, index, planes);
  max_planes<2, 0, kIndex>(w, x, y, index, planes);
}

void max_simd(const PoolWindows& w, const float* x, float* y, std::int32_t* index, std::int64_t planes) {
  if (index) {
    max_any<true>(w, x, y, index, planes);
  } else {
    max_any<false>(w, x, y, index, planes);
  }
}

void avg_simd(const PoolWindows& w, const float* x, float* y, std::int64_t planes) {
  if (w.stride == 1) return sum_planes<1, 0>(w, x, y, planes);
  if (w.kernel == 2) return sum_planes<2, 2>(w, x, y, planes);
  sum_planes<2, 0>(w, x, y, planes);
}

// y = scale · the sum of each row of n.
void sum_rows_simd(const float* x, float* y, std::int64_t rows, std::int64_t n, float scale) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const hn::CappedTag<float, 4> four;
  const auto few = static_cast<std::int64_t>(hn::Lanes(four));
  for (std::int64_t r = 0; r < rows; ++r, x += n) {
    auto first = hn::Zero(d), second = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      first = hn::Add(first, hn::LoadU(d, x + i));
      second = hn::Add(second, hn::LoadU(d, x + i + lanes));
    }
    if (i + lanes <= n) first = hn::Add(first, hn::LoadU(d, x + i)), i += lanes;
    float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(first, second)));
    if (n - i >= few) {
      auto rest = hn::Zero(four);
      for (; i + few <= n; i += few) rest = hn::Add(rest, hn::LoadU(four, x + i));
      sum += hn::GetLane(hn::SumOfLanes(four, rest));
    }
    for (; i < n; ++i) sum += x[i];
    y[r] = scale * sum;
  }
}

// Scatters a vector of windows; returns true if all positions lie in their own window.
template <class D>
HWY_INLINE bool two_block(D d, const float* dy, const std::int32_t* index, std::int64_t first, std::int64_t width,
                          float* top, float* bottom) {
  const hn::RebindToSigned<D> places;
  const auto lanes = hn::Iota(places, 0);
  const auto own = hn::Add(hn::Add(lanes, lanes), hn::Set(places, static_cast<std::int32_t>(first)));
  const auto off = hn::Sub(hn::LoadU(places, index), own);
  const auto gradient = hn::LoadU(d, dy);
  const auto side = static_cast<std::int32_t>(width);
  const auto is = [&](std::int32_t offset) HWY_ATTR { return hn::Eq(off, hn::Set(places, offset)); };
  const auto m0 = is(0), m1 = is(1), m2 = is(side), m3 = is(side + 1);
  const auto part = [&](auto mask) HWY_ATTR { return hn::IfThenElseZero(hn::RebindMask(d, mask), gradient); };
  hn::StoreInterleaved2(part(m0), part(m1), d, top);
  hn::StoreInterleaved2(part(m2), part(m3), d, bottom);
  return hn::AllTrue(places, hn::Or(hn::Or(m0, m1), hn::Or(m2, m3)));
}

bool scatter_simd(const float* dy, const std::int32_t* index, std::int64_t rows, std::int64_t columns, float* dx) {
  const std::int64_t width = 2 * columns;
  bool fits = true;
  for (std::int64_t r = 0; r < rows; ++r, dy += columns, index += columns, dx += 2 * width) {
    over_row(columns, [&](auto d, std::int64_t c) HWY_ATTR {
      fits &= two_block(d, dy + c, index + c, 2 * r * width + 2 * c, width, dx + 2 * c, dx + width + 2 * c);
    });
  }
  return fits;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
HWY_EXPORT(max_simd);
HWY_EXPORT(avg_simd);
HWY_EXPORT(scatter_simd);
HWY_EXPORT(sum_rows_simd);

void max_pool_planes(const PoolWindows& w, const float* x, float* y, std::int32_t* index, std::int64_t first,
                     std::int64_t end) {
  const std::int64_t out = first * w.out_volume();
  HWY_DYNAMIC_DISPATCH(max_simd)(w, x + first * w.in_volume(), y + out, index ? index + out : nullptr, end - first);
}

void avg_pool_planes(const PoolWindows& w, const float* x, float* y, std::int64_t first, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(avg_simd)(w, x + first * w.in_volume(), y + first * w.out_volume(), end - first);
}

void avg_pool_whole(const float* x, float* y, std::int64_t planes, std::int64_t volume, double scale) {
  HWY_DYNAMIC_DISPATCH(sum_rows_simd)(x, y, planes, volume, static_cast<float>(scale));
}

bool scatter_two(const float* dy, const std::int32_t* index, std::int64_t rows, std::int64_t columns, float* dx) {
  return HWY_DYNAMIC_DISPATCH(scatter_simd)(dy, index, rows, columns, dx);
}

}  // namespace starling::kernels
#endif
