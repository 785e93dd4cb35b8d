// Per-target: Winograd's transforms of one line of a tile, sixteen tiles at once. Included once for each Highway
// target.
#include <cstdint>

#include "hwy/highway.h"

#if defined(STARLING_WINOGRAD_LINES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_WINOGRAD_LINES_INL_H
#undef STARLING_WINOGRAD_LINES_INL_H
#else
#define STARLING_WINOGRAD_LINES_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::winograd_simd {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using Vec = hn::Vec<D>;
constexpr std::int64_t kLanes = HWY_LANES(float);

HWY_INLINE Vec times(float c, Vec v) { return hn::Mul(hn::Set(D(), c), v); }
HWY_INLINE Vec plus(Vec sum, float c, Vec v) { return hn::MulAdd(hn::Set(D(), c), v, sum); }

// Two outputs of a kernel of three: points 0, 1, −1, ∞.
struct Scheme2x3 {
  static constexpr int kOut = 2, kKernel = 3, kTile = 4;

  static HWY_INLINE void input(const Vec (&d)[4], Vec (&t)[4]) {
    t[0] = hn::Sub(d[0], d[2]);
    t[1] = hn::Add(d[1], d[2]);
    t[2] = hn::Sub(d[2], d[1]);
    t[3] = hn::Sub(d[1], d[3]);
  }
  static HWY_INLINE void output(const Vec (&t)[4], Vec (&y)[2]) {
    y[0] = hn::Add(t[0], hn::Add(t[1], t[2]));
    y[1] = hn::Sub(hn::Sub(t[1], t[2]), t[3]);
  }
  static HWY_INLINE void gradient(const Vec (&y)[2], Vec (&t)[4]) {
    t[0] = y[0];
    t[1] = hn::Add(y[0], y[1]);
    t[2] = hn::Sub(y[0], y[1]);
    t[3] = hn::Neg(y[1]);
  }
  static HWY_INLINE void weights(const Vec (&w)[3], Vec (&g)[4]) {
    const Vec ends = times(0.5F, hn::Add(w[0], w[2]));
    g[0] = w[0];
    g[1] = plus(ends, 0.5F, w[1]);
    g[2] = plus(ends, -0.5F, w[1]);
    g[3] = w[2];
  }
  static HWY_INLINE void weights_back(const Vec (&u)[4], Vec (&w)[3]) {
    const Vec ends = times(0.5F, hn::Add(u[1], u[2]));
    w[0] = hn::Add(u[0], ends);
    w[1] = times(0.5F, hn::Sub(u[1], u[2]));
    w[2] = hn::Add(ends, u[3]);
  }
};

// Tiles of six: points 0, ±a, ±b, ∞, where 5/8 and 3/2 keep rounding lower than 1 and 2 would, and every coefficient
// of the data is exact. With M(x) = x (x² − a²) (x² − b²), row p of Bᵀ holds the coefficients of M(x) / (x − p), row p
// of G the powers of p over M'(p), column p of Aᵀ the powers of p. Rows p and −p share their even and odd parts.
template <int kOutputs, int kTaps>
struct SchemeOfSix {
  static constexpr int kOut = kOutputs, kKernel = kTaps, kTile = 6;
  static_assert(kOut + kKernel - 1 == kTile);

  static constexpr float kA[5] = {1.0F, 0.625F, 0.390625F, 0.244140625F, 0.152587890625F};
  static constexpr float kB[5] = {1.0F, 1.5F, 2.25F, 3.375F, 5.0625F};
  static constexpr float kProduct = kA[2] * kB[2], kSum = kA[2] + kB[2];
  static constexpr float kOver0 = 1 / kProduct;
  static constexpr float kOverA = 1 / (2 * kA[2] * (kA[2] - kB[2]));
  static constexpr float kOverB = 1 / (2 * kB[2] * (kB[2] - kA[2]));

  static HWY_INLINE void pair(Vec even, Vec odd, Vec& up, Vec& down) {
    up = hn::Add(even, odd);
    down = hn::Sub(even, odd);
  }

  static HWY_INLINE void input(const Vec (&d)[6], Vec (&t)[6]) {
    t[0] = plus(plus(d[4], -kSum, d[2]), kProduct, d[0]);
    pair(plus(d[4], -kB[2], d[2]), times(kA[1], plus(d[3], -kB[2], d[1])), t[1], t[2]);
    pair(plus(d[4], -kA[2], d[2]), times(kB[1], plus(d[3], -kA[2], d[1])), t[3], t[4]);
    t[5] = plus(plus(d[5], -kSum, d[3]), kProduct, d[1]);
  }

  static HWY_INLINE void output(const Vec (&t)[6], Vec (&y)[kOut]) {
    const Vec sum_a = hn::Add(t[1], t[2]), sum_b = hn::Add(t[3], t[4]);
    const Vec dif_a = hn::Sub(t[1], t[2]), dif_b = hn::Sub(t[3], t[4]);
    y[0] = hn::Add(t[0], hn::Add(sum_a, sum_b));
    y[1] = plus(times(kA[1], dif_a), kB[1], dif_b);
    if constexpr (kOut == 4) {
      y[2] = plus(times(kA[2], sum_a), kB[2], sum_b);
      y[3] = plus(times(kA[3], dif_a), kB[3], dif_b);
    }
    y[kOut - 1] = hn::Add(y[kOut - 1], t[5]);
  }

  static HWY_INLINE void gradient(const Vec (&y)[kOut], Vec (&t)[6]) {
    const auto at = [&](const float(&power)[5], Vec& up, Vec& down) HWY_ATTR {
      if constexpr (kOut == 4) {
        pair(plus(y[0], power[2], y[2]), plus(times(power[1], y[1]), power[3], y[3]), up, down);
      } else {
        pair(y[0], times(power[1], y[1]), up, down);
      }
    };
    t[0] = y[0];
    at(kA, t[1], t[2]);
    at(kB, t[3], t[4]);
    t[5] = y[kOut - 1];
  }

  static HWY_INLINE void weights(const Vec (&w)[kKernel], Vec (&g)[6]) {
    const auto at = [&](const float(&power)[5], float over, Vec& up, Vec& down) HWY_ATTR {
      Vec even = plus(w[0], power[2], w[2]), odd = times(power[1], w[1]);
      if constexpr (kKernel == 5) {
        even = plus(even, power[4], w[4]);
        odd = plus(odd, power[3], w[3]);
      }
      pair(times(over, even), times(over, odd), up, down);
    };
    g[0] = times(kOver0, w[0]);
    at(kA, kOverA, g[1], g[2]);
    at(kB, kOverB, g[3], g[4]);
    g[5] = w[kKernel - 1];
  }

  static HWY_INLINE void weights_back(const Vec (&u)[6], Vec (&w)[kKernel]) {
    const Vec sum_a = times(kOverA, hn::Add(u[1], u[2])), sum_b = times(kOverB, hn::Add(u[3], u[4]));
    const Vec dif_a = times(kOverA, hn::Sub(u[1], u[2])), dif_b = times(kOverB, hn::Sub(u[3], u[4]));
    w[0] = plus(hn::Add(sum_a, sum_b), kOver0, u[0]);
    w[1] = plus(times(kA[1], dif_a), kB[1], dif_b);
    w[2] = plus(times(kA[2], sum_a), kB[2], sum_b);
    if constexpr (kKernel == 5) {
      w[3] = plus(times(kA[3], dif_a), kB[3], dif_b);
      w[4] = plus(times(kA[4], sum_a), kB[4], sum_b);
    }
    w[kKernel - 1] = hn::Add(w[kKernel - 1], u[5]);
  }
};
using Scheme4x3 = SchemeOfSix<4, 3>;
using Scheme2x5 = SchemeOfSix<2, 5>;

}  // namespace HWY_NAMESPACE::winograd_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();
#endif
