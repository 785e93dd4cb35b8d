#include "starling/kernels/cpu/simd/rotary.h"

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/simd/rotary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rotates pairs (i, i + half).
void rotate_halves(const float* x, float* y, std::int64_t half, const float* cosines, const float* sines) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    const auto c = hn::LoadU(d, cosines + i), s = hn::LoadU(d, sines + i);
    const auto u = hn::LoadU(d, x + i), v = hn::LoadU(d, x + half + i);
    hn::StoreU(hn::NegMulAdd(v, s, hn::Mul(u, c)), d, y + i);
    hn::StoreU(hn::MulAdd(u, s, hn::Mul(v, c)), d, y + half + i);
  }
  for (; i < half; ++i) {
    const float u = x[i], v = x[half + i];
    y[i] = u * cosines[i] - v * sines[i];
    y[half + i] = u * sines[i] + v * cosines[i];
  }
}

// Rotates pairs (2i, 2i + 1).
void rotate_neighbours(const float* x, float* y, std::int64_t half, const float* cosines, const float* sines) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= half; i += lanes) {
    const auto c = hn::LoadU(d, cosines + i), s = hn::LoadU(d, sines + i);
    hn::Vec<decltype(d)> u, v;
    hn::LoadInterleaved2(d, x + 2 * i, u, v);
    hn::StoreInterleaved2(hn::NegMulAdd(v, s, hn::Mul(u, c)), hn::MulAdd(u, s, hn::Mul(v, c)), d, y + 2 * i);
  }
#endif
  for (; i < half; ++i) {
    const float u = x[2 * i], v = x[2 * i + 1];
    y[2 * i] = u * cosines[i] - v * sines[i];
    y[2 * i + 1] = u * sines[i] + v * cosines[i];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {
HWY_EXPORT(rotate_halves);
HWY_EXPORT(rotate_neighbours);
}  // namespace

void rotate_rows(const float* x, float* y, std::int64_t rows, std::int64_t d, const RotaryTable& table,
                 bool interleaved) {
  if (d == 0) return;
  constexpr std::int64_t kGrain = 16384;
  const auto turn = interleaved ? HWY_DYNAMIC_DISPATCH(rotate_neighbours) : HWY_DYNAMIC_DISPATCH(rotate_halves);
  const std::int64_t half = d / 2;
  parallel_for(rows, std::max<std::int64_t>(1, kGrain / d), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t at = r % table.steps * half;
      turn(x + r * d, y + r * d, half, table.cosines + at, table.sines + at);
    }
  });
}

}  // namespace starling::kernels
#endif
