// Per-target: the weights' way into the planes of winograd.h and back. Included once for each Highway target.
#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "starling/kernels/cpu/winograd-inl.h"

#if defined(STARLING_WINOGRAD_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_WINOGRAD_WEIGHTS_INL_H
#undef STARLING_WINOGRAD_WEIGHTS_INL_H
#else
#define STARLING_WINOGRAD_WEIGHTS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE::winograd_simd {

// Weights of L input channels lie 9 apart; they pass through a block [9][L].
HWY_INLINE void turn_in(const float* w, std::int64_t count, float* block) {
  for (std::int64_t l = 0; l < count; ++l) {
    for (int k = 0; k < 9; ++k) block[k * L + l] = w[l * 9 + k];
  }
}
HWY_INLINE void turn_out(const float* block, std::int64_t count, float* w) {
  for (std::int64_t l = 0; l < count; ++l) {
    for (int k = 0; k < 9; ++k) w[l * 9 + k] = block[k * L + l];
  }
}

inline void weights_to_planes(const float* w, std::int64_t in, WinogradRange out, float* planes, std::int64_t plane) {
  const D d;
  const Vec half = hn::Set(d, 0.5F);
  HWY_ALIGN float block[9 * L] = {};
  for (std::int64_t o = out.begin; o < out.end; ++o) {
    for (std::int64_t c = 0; c < in; c += L) {
      const std::int64_t count = std::min(L, in - c);
      turn_in(w + (o * in + c) * 9, count, block);
      Vec g[4][3];
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
        const Vec w0 = hn::Load(d, block + j * L), w1 = hn::Load(d, block + (3 + j) * L);
        const Vec w2 = hn::Load(d, block + (6 + j) * L), ends = hn::Mul(half, hn::Add(w0, w2));
        g[0][j] = w0;
        g[1][j] = hn::MulAdd(half, w1, ends);
        g[2][j] = hn::NegMulAdd(half, w1, ends);
        g[3][j] = w2;
      }
      float* to = planes + o * in + c;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const Vec ends = hn::Mul(half, hn::Add(g[i][0], g[i][2]));
        store_some(g[i][0], to + (i * 4) * plane, count);
        store_some(hn::MulAdd(half, g[i][1], ends), to + (i * 4 + 1) * plane, count);
        store_some(hn::NegMulAdd(half, g[i][1], ends), to + (i * 4 + 2) * plane, count);
        store_some(g[i][2], to + (i * 4 + 3) * plane, count);
      }
    }
  }
}

inline void planes_to_weights(const float* planes, std::int64_t plane, std::int64_t in, WinogradRange out, float* w) {
  const D d;
  const Vec half = hn::Set(d, 0.5F);
  HWY_ALIGN float block[9 * L];
  for (std::int64_t o = out.begin; o < out.end; ++o) {
    for (std::int64_t c = 0; c < in; c += L) {
      const std::int64_t count = std::min(L, in - c);
      const float* from = planes + o * in + c;
      const auto load = [&](int p) HWY_ATTR {
        return count == L ? hn::LoadU(d, from + p * plane) : load_first(d, from + p * plane, count);
      };
      Vec u[3][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const Vec u1 = load(4 + j), u2 = load(8 + j), ends = hn::Mul(half, hn::Add(u1, u2));
        u[0][j] = hn::Add(load(j), ends);
        u[1][j] = hn::Mul(half, hn::Sub(u1, u2));
        u[2][j] = hn::Add(ends, load(12 + j));
      }
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) {
        const Vec ends = hn::Mul(half, hn::Add(u[i][1], u[i][2]));
        hn::Store(hn::Add(u[i][0], ends), d, block + (i * 3) * L);
        hn::Store(hn::Mul(half, hn::Sub(u[i][1], u[i][2])), d, block + (i * 3 + 1) * L);
        hn::Store(hn::Add(ends, u[i][3]), d, block + (i * 3 + 2) * L);
      }
      turn_out(block, count, w + (o * in + c) * 9);
    }
  }
}

}  // namespace HWY_NAMESPACE::winograd_simd
}  // namespace starling
HWY_AFTER_NAMESPACE();
#endif
