// Per-target: products of two operands that are both contiguous along k, as dot products. Included once for each
// Highway target.
#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "starling/kernels/cpu/gemm/gemm_pack-inl.h"

#if defined(STARLING_GEMM_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_GEMM_DOT_INL_H
#undef STARLING_GEMM_DOT_INL_H
#else
#define STARLING_GEMM_DOT_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::gemm_simd {
namespace hn = hwy::HWY_NAMESPACE;

// out[R, S] = a[R, k] * b[S, k] transposed; row s of b is rows[s].
template <int R, int S, class T>
HWY_NOINLINE void dot_tile(std::int64_t k, const T* HWY_RESTRICT a, std::int64_t lda, const T* const* rows,
                           T* HWY_RESTRICT out, std::int64_t ld_out) {
  const hn::ScalableTag<T> d;
  using Vec = hn::Vec<decltype(d)>;
  constexpr std::int64_t L = HWY_LANES(T);
  const T* b[S];
#pragma GCC unroll 4
  for (int s = 0; s < S; ++s) b[s] = rows[s];
  Vec acc[R][S];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) acc[r][s] = hn::Zero(d);
  }
  const auto step = [&](const auto& load) HWY_ATTR {
    Vec bv[S];
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) bv[s] = load(b[s]);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Vec av = load(a + r * lda);
#pragma GCC unroll 4
      for (int s = 0; s < S; ++s) acc[r][s] = hn::MulAdd(av, bv[s], acc[r][s]);
    }
  };
  std::int64_t i = 0;
  for (; i + L <= k; i += L) step([&](const T* row) HWY_ATTR { return hn::LoadU(d, row + i); });
  if (i < k) step([&](const T* row) HWY_ATTR { return load_first(d, row + i, k - i); });
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) out[r * ld_out + s] = hn::GetLane(hn::SumOfLanes(d, acc[r][s]));
  }
}

template <class T>
using DotFunction = void (*)(std::int64_t, const T*, std::int64_t, const T* const*, T*, std::int64_t);

// out[rows, cols] = a[rows, k] * b[cols, k] transposed, at most 4 rows; row_of(col) is a row of b.
template <class T, class RowOf>
void dot_rows(std::int64_t rows, std::int64_t cols, std::int64_t k, const T* a, std::int64_t lda, const RowOf& row_of,
              T* out, std::int64_t ld_out) {
  static constexpr DotFunction<T> kTiles[4][4] = {
      {dot_tile<1, 1, T>, dot_tile<1, 2, T>, dot_tile<1, 3, T>, dot_tile<1, 4, T>},
      {dot_tile<2, 1, T>, dot_tile<2, 2, T>, dot_tile<2, 3, T>, dot_tile<2, 4, T>},
      {dot_tile<3, 1, T>, dot_tile<3, 2, T>, dot_tile<3, 3, T>, dot_tile<3, 4, T>},
      {dot_tile<4, 1, T>, dot_tile<4, 2, T>, dot_tile<4, 3, T>, dot_tile<4, 4, T>}};
  for (std::int64_t c = 0; c < cols; c += 4) {
    const std::int64_t count = std::min<std::int64_t>(4, cols - c);
    const T* b[4];
    for (std::int64_t i = 0; i < count; ++i) b[i] = row_of(c + i);
    kTiles[rows - 1][count - 1](k, a, lda, b, out + c, ld_out);
  }
}

}  // namespace HWY_NAMESPACE::gemm_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();
#endif
