// Per-target: the weight transforms of winograd.h. Included once for each Highway target.
#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "starling/kernels/cpu/conv/winograd-inl.h"

#if defined(STARLING_WINOGRAD_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_WINOGRAD_WEIGHTS_INL_H
#undef STARLING_WINOGRAD_WEIGHTS_INL_H
#else
#define STARLING_WINOGRAD_WEIGHTS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::winograd_simd {

// Gathers the weights of kLanes input channels into a block [taps][kLanes].
template <int kTaps>
HWY_INLINE void turn_in(const float* w, std::int64_t stride, bool turned, std::int64_t count, float* block) {
  for (std::int64_t l = 0; l < count; ++l) {
    const float* from = w + l * stride;
    if (turned) {
      for (int k = 0; k < kTaps; ++k) block[k * kLanes + l] = from[kTaps - 1 - k];
    } else {
      for (int k = 0; k < kTaps; ++k) block[k * kLanes + l] = from[k];
    }
  }
}
template <int kTaps>
HWY_INLINE void turn_out(const float* block, std::int64_t count, float* w) {
  for (std::int64_t l = 0; l < count; ++l) {
    for (int k = 0; k < kTaps; ++k) w[l * kTaps + k] = block[k * kLanes + l];
  }
}

template <class S>
void weights_to_planes(const float* w, const WinogradWeights& from, WinogradRange out, float* planes,
                       std::int64_t plane) {
  constexpr int kTile = S::kTile, kKernel = S::kKernel, kTaps = kKernel * kKernel;
  const D d;
  HWY_ALIGN float block[kTaps * kLanes] = {};
  for (std::int64_t o = out.begin; o < out.end; ++o) {
    for (std::int64_t c = 0; c < from.in; c += kLanes) {
      const std::int64_t count = std::min(kLanes, from.in - c);
      turn_in<kTaps>(w + o * from.out_stride + c * from.in_stride, from.in_stride, from.turned, count, block);
      Vec half[kTile][kKernel];
#pragma GCC unroll 5
      for (int j = 0; j < kKernel; ++j) {
        Vec column[kKernel], made[kTile];
#pragma GCC unroll 5
        for (int i = 0; i < kKernel; ++i) column[i] = hn::Load(d, block + (i * kKernel + j) * kLanes);
        S::weights(column, made);
#pragma GCC unroll 6
        for (int i = 0; i < kTile; ++i) half[i][j] = made[i];
      }
      float* to = planes + o * from.in + c;
#pragma GCC unroll 6
      for (int i = 0; i < kTile; ++i) {
        Vec made[kTile];
        S::weights(half[i], made);
#pragma GCC unroll 6
        for (int j = 0; j < kTile; ++j) store_some(made[j], to + (i * kTile + j) * plane, count);
      }
    }
  }
}

template <class S>
void planes_to_weights(const float* planes, std::int64_t plane, std::int64_t in, WinogradRange out, float* w) {
  constexpr int kTile = S::kTile, kKernel = S::kKernel, kTaps = kKernel * kKernel;
  const D d;
  HWY_ALIGN float block[kTaps * kLanes];
  for (std::int64_t o = out.begin; o < out.end; ++o) {
    for (std::int64_t c = 0; c < in; c += kLanes) {
      const std::int64_t count = std::min(kLanes, in - c);
      const float* from = planes + o * in + c;
      Vec half[kKernel][kTile];
#pragma GCC unroll 6
      for (int j = 0; j < kTile; ++j) {
        Vec column[kTile], made[kKernel];
#pragma GCC unroll 6
        for (int i = 0; i < kTile; ++i) {
          const float* at = from + (i * kTile + j) * plane;
          column[i] = count == kLanes ? hn::LoadU(d, at) : load_first(d, at, count);
        }
        S::weights_back(column, made);
#pragma GCC unroll 5
        for (int i = 0; i < kKernel; ++i) half[i][j] = made[i];
      }
#pragma GCC unroll 5
      for (int i = 0; i < kKernel; ++i) {
        Vec made[kKernel];
        S::weights_back(half[i], made);
#pragma GCC unroll 5
        for (int j = 0; j < kKernel; ++j) hn::Store(made[j], d, block + (i * kKernel + j) * kLanes);
      }
      turn_out<kTaps>(block, count, w + (o * in + c) * kTaps);
    }
  }
}

}  // namespace HWY_NAMESPACE::winograd_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();
#endif
