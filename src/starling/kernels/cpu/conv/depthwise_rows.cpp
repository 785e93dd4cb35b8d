#include "starling/kernels/cpu/conv/depthwise_rows.h"

#include <algorithm>

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/conv/depthwise_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "starling/kernels/cpu/gemm/gemm_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using Vec = hn::Vec<D>;

// Four vectors per step, for which each weight is broadcast once.
void sum_taps(const DepthwiseSum& sum, const float* from, std::int64_t count, float* to) {
  const D d;
  constexpr std::int64_t L = HWY_LANES(float);
  for (std::int64_t q = 0; q < count; q += 4 * L) {
    Vec acc[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) acc[v] = sum.accumulate ? hn::LoadU(d, to + q + v * L) : hn::Set(d, sum.start);
    for (std::int64_t t = 0; t < sum.taps; ++t) {
      const Vec weight = hn::Set(d, sum.weights[t]);
      const float* at = from + q + sum.offsets[t];
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) acc[v] = hn::MulAdd(weight, hn::LoadU(d, at + v * L), acc[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) hn::StoreU(sum.relu ? hn::Max(hn::Zero(d), acc[v]) : acc[v], d, to + q + v * L);
  }
}

template <int N>
HWY_INLINE void dots(const float* from, const std::int64_t* offsets, const float* by, std::int64_t count, float* sums) {
  const D d;
  constexpr std::int64_t L = HWY_LANES(float);
  const float* rows[N];
  Vec acc[N];
#pragma GCC unroll 9
  for (int t = 0; t < N; ++t) {
    rows[t] = from + offsets[t];
    acc[t] = hn::Zero(d);
  }
  for (std::int64_t q = 0; q < count; q += L) {
    const Vec b = hn::LoadU(d, by + q);
#pragma GCC unroll 9
    for (int t = 0; t < N; ++t) acc[t] = hn::MulAdd(b, hn::LoadU(d, rows[t] + q), acc[t]);
  }
#pragma GCC unroll 9
  for (int t = 0; t < N; ++t) sums[t] += hn::GetLane(hn::SumOfLanes(d, acc[t]));
}

void dot_taps(const float* from, const std::int64_t* offsets, std::int64_t taps, const float* by, std::int64_t count,
              float* sums) {
  std::int64_t t = 0;
  for (; t + 9 <= taps; t += 9) dots<9>(from, offsets + t, by, count, sums + t);
  for (; t + 5 <= taps; t += 5) dots<5>(from, offsets + t, by, count, sums + t);
  for (; t + 3 <= taps; t += 3) dots<3>(from, offsets + t, by, count, sums + t);
  for (; t < taps; ++t) dots<1>(from, offsets + t, by, count, sums + t);
}

void copy(const RowBlock& b, const float* from, float* to) {
  const D d;
  constexpr std::int64_t L = HWY_LANES(float);
  const std::int64_t whole = b.width / L * L, rest = b.width - whole;
  for (std::int64_t r = 0; r < b.rows; ++r, from += b.ld_from, to += b.ld_to) {
    for (std::int64_t c = 0; c < whole; c += L) hn::StoreU(hn::LoadU(d, from + c), d, to + c);
    if (rest > 0) gemm_simd::store_first(gemm_simd::load_first(d, from + whole, rest), d, to + whole, rest);
  }
}

void split(const float* from, std::int64_t count, float* even, float* odd) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  constexpr std::int64_t L = HWY_LANES(float);
  for (; i + L <= count; i += L) {
    const auto low = hn::LoadU(d, from + 2 * i), high = hn::LoadU(d, from + 2 * i + L);
    hn::StoreU(hn::ConcatEven(d, high, low), d, even + i);
    hn::StoreU(hn::ConcatOdd(d, high, low), d, odd + i);
  }
#endif
  for (; i < count; ++i) {
    even[i] = from[2 * i];
    odd[i] = from[2 * i + 1];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
HWY_EXPORT(sum_taps);
HWY_EXPORT(dot_taps);
HWY_EXPORT(split);
HWY_EXPORT(copy);

void depthwise_sum(const DepthwiseSum& sum, const float* from, std::int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(sum_taps)(sum, from, count, to);
}
void depthwise_dots(const float* from, const std::int64_t* offsets, std::int64_t taps, const float* by,
                    std::int64_t count, float* sums) {
  HWY_DYNAMIC_DISPATCH(dot_taps)(from, offsets, taps, by, count, sums);
}
void copy_rows(const RowBlock& block, const float* from, float* to) { HWY_DYNAMIC_DISPATCH(copy)(block, from, to); }
void split_pairs(const float* from, std::int64_t count, float* even, float* odd) {
  HWY_DYNAMIC_DISPATCH(split)(from, count, even, odd);
}

}  // namespace starling::kernels
#endif
