// Per-target: the moves declared in winograd.h. Included once for each Highway target.
#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "starling/kernels/cpu/gemm_pack-inl.h"
#include "starling/kernels/cpu/winograd.h"

#if defined(STARLING_WINOGRAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_WINOGRAD_INL_H
#undef STARLING_WINOGRAD_INL_H
#else
#define STARLING_WINOGRAD_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE::winograd_simd {
namespace hn = hwy::HWY_NAMESPACE;
using gemm_simd::load_first;
using gemm_simd::store_first;
using D = hn::ScalableTag<float>;
using Vec = hn::Vec<D>;
constexpr std::int64_t L = HWY_LANES(float);

// even = row[0, 2, ..], odd = row[1, 3, ..].
HWY_INLINE void load_even_odd(const float* row, Vec& even, Vec& odd) {
  const D d;
#if HWY_TARGET == HWY_SCALAR
  even = hn::LoadU(d, row);
  odd = hn::LoadU(d, row + 1);
#else
  const auto low = hn::LoadU(d, row), high = hn::LoadU(d, row + L);
  even = hn::ConcatEven(d, high, low);
  odd = hn::ConcatOdd(d, high, low);
#endif
}

HWY_INLINE void store_even_odd(Vec even, Vec odd, float* to) {
  const D d;
#if HWY_TARGET == HWY_SCALAR
  hn::StoreU(even, d, to);
  hn::StoreU(odd, d, to + 1);
#else
  hn::StoreInterleaved2(even, odd, d, to);
#endif
}

HWY_INLINE void store_some(Vec v, float* to, std::int64_t count) {
  const D d;
  if (count >= L) {
    hn::StoreU(v, d, to);
  } else {
    store_first(v, d, to, count);
  }
}

// A run of tiles in one row of tiles.
struct Run {
  std::int64_t image, row, col, count, place;
};

template <class F>
HWY_INLINE void each_run(const WinogradImages& s, WinogradRange tiles, const F& f) {
  const std::int64_t per_image = s.tile_rows * s.tile_cols;
  for (std::int64_t t = tiles.begin; t < tiles.end;) {
    const std::int64_t at = t % per_image, col = at % s.tile_cols;
    const std::int64_t count = std::min(s.tile_cols - col, tiles.end - t);
    f(Run{t / per_image, at / s.tile_cols, col, count, t - tiles.begin});
    t += count;
  }
}

// The last four rows of one channel of an image, padded with zeros on both sides.
class PaddedRows {
 public:
  PaddedRows(const WinogradImages& s, float* memory) : s_(s), pitch_(winograd_rows(s) / 4), memory_(memory) {}
  void begin(const float* plane) {
    plane_ = plane;
    std::fill(held_, held_ + 4, std::int64_t{-1});
  }
  // Row `row` of the padded image.
  const float* at(std::int64_t row) {
    float* to = memory_ + (row & 3) * pitch_;
    if (held_[row & 3] == row) return to;
    held_[row & 3] = row;
    const std::int64_t h = row - s_.pad_h;
    if (h < 0 || h >= s_.height) {
      std::fill(to, to + pitch_, 0.0F);
      return to;
    }
    const float* from = plane_ + h * s_.width;
    std::fill(to, to + s_.pad_w, 0.0F);
    std::copy(from, from + s_.width, to + s_.pad_w);
    std::fill(to + s_.pad_w + s_.width, to + pitch_, 0.0F);
    return to;
  }

 private:
  const WinogradImages& s_;
  std::int64_t pitch_;
  float* memory_;
  const float* plane_ = nullptr;
  std::int64_t held_[4] = {-1, -1, -1, -1};
};

HWY_INLINE void store_planes(const Vec (&v)[4][4], const WinogradPlanes& to, std::int64_t at, std::int64_t count) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store_some(v[i][j], to.at + (i * 4 + j) * to.plane + at, count);
  }
}

HWY_INLINE void input_tiles(const float* const (&rows)[4], std::int64_t col, const WinogradPlanes& to, std::int64_t at,
                            std::int64_t count) {
  Vec x[4][4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    Vec d0, d1, d2, d3;
    load_even_odd(rows[i] + 2 * col, d0, d1);
    load_even_odd(rows[i] + 2 * col + 2, d2, d3);
    x[i][0] = hn::Sub(d0, d2);
    x[i][1] = hn::Add(d1, d2);
    x[i][2] = hn::Sub(d2, d1);
    x[i][3] = hn::Sub(d1, d3);
  }
  Vec v[4][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    v[0][j] = hn::Sub(x[0][j], x[2][j]);
    v[1][j] = hn::Add(x[1][j], x[2][j]);
    v[2][j] = hn::Sub(x[2][j], x[1][j]);
    v[3][j] = hn::Sub(x[1][j], x[3][j]);
  }
  store_planes(v, to, at, count);
}

HWY_INLINE void gradient_tiles(const float* const (&rows)[2], std::int64_t col, const WinogradPlanes& to,
                               std::int64_t at, std::int64_t count) {
  Vec x[2][4];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    Vec d0, d1;
    load_even_odd(rows[i] + 2 * col, d0, d1);
    x[i][0] = d0;
    x[i][1] = hn::Add(d0, d1);
    x[i][2] = hn::Sub(d0, d1);
    x[i][3] = hn::Neg(d1);
  }
  Vec v[4][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    v[0][j] = x[0][j];
    v[1][j] = hn::Add(x[0][j], x[1][j]);
    v[2][j] = hn::Sub(x[0][j], x[1][j]);
    v[3][j] = hn::Neg(x[1][j]);
  }
  store_planes(v, to, at, count);
}

// kRows input rows a tile: 4 of an input, 2 of a gradient.
template <int kRows>
void images_to_planes(const WinogradImages& s, const float* x, WinogradRange channels, WinogradRange tiles,
                      const WinogradPlanes& to, float* memory) {
  PaddedRows rows(s, memory);
  const std::int64_t size = s.height * s.width;
  for (std::int64_t c = channels.begin; c < channels.end; ++c) {
    std::int64_t image = -1;
    each_run(s, tiles, [&](const Run& run) HWY_ATTR {
      if (run.image != image) rows.begin(x + (run.image * s.channels + c) * size);
      image = run.image;
      const float* at[kRows];
      for (int i = 0; i < kRows; ++i) at[i] = rows.at(2 * run.row + i);
      for (std::int64_t t = 0; t < run.count; t += L) {
        const std::int64_t place = c * to.ld + run.place + t;
        if constexpr (kRows == 4) {
          input_tiles(at, run.col + t, to, place, run.count - t);
        } else {
          gradient_tiles(at, run.col + t, to, place, run.count - t);
        }
      }
    });
  }
}

// Two output rows of L tiles each.
HWY_INLINE void output_tiles(const WinogradPlanes& from, std::int64_t at, Vec bias, bool relu, Vec (&y)[2][2]) {
  const D d;
  Vec m[2][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Vec m0 = hn::LoadU(d, from.at + j * from.plane + at), m1 = hn::LoadU(d, from.at + (4 + j) * from.plane + at);
    const Vec m2 = hn::LoadU(d, from.at + (8 + j) * from.plane + at);
    const Vec m3 = hn::LoadU(d, from.at + (12 + j) * from.plane + at);
    m[0][j] = hn::Add(m0, hn::Add(m1, m2));
    m[1][j] = hn::Sub(hn::Sub(m1, m2), m3);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    y[i][0] = hn::Add(bias, hn::Add(m[i][0], hn::Add(m[i][1], m[i][2])));
    y[i][1] = hn::Add(bias, hn::Sub(hn::Sub(m[i][1], m[i][2]), m[i][3]));
    if (!relu) continue;
    y[i][0] = hn::Max(hn::Zero(d), y[i][0]);
    y[i][1] = hn::Max(hn::Zero(d), y[i][1]);
  }
}

inline void planes_to_images(const WinogradImages& s, const WinogradPlanes& from, WinogradRange tiles,
                             const float* bias, bool relu, float* y) {
  const D d;
  HWY_ALIGN float buffer[2 * L];
  for (std::int64_t c = 0; c < s.channels; ++c) {
    const Vec add = hn::Set(d, bias ? bias[c] : 0.0F);
    each_run(s, tiles, [&](const Run& run) HWY_ATTR {
      float* image = y + (run.image * s.channels + c) * s.height * s.width;
      for (std::int64_t t = 0; t < run.count; t += L) {
        Vec out[2][2];
        output_tiles(from, c * from.ld + run.place + t, add, relu, out);
        const std::int64_t col = 2 * (run.col + t), count = std::min(2 * (run.count - t), s.width - col);
        const std::int64_t rows = std::min<std::int64_t>(2, s.height - 2 * run.row);
        for (std::int64_t i = 0; i < rows; ++i) {
          float* to = image + (2 * run.row + i) * s.width + col;
          if (count >= 2 * L) {
            store_even_odd(out[i][0], out[i][1], to);
            continue;
          }
          store_even_odd(out[i][0], out[i][1], buffer);
          store_some(hn::Load(d, buffer), to, count);
          if (count > L) store_some(hn::Load(d, buffer + L), to + L, count - L);
        }
      }
    });
  }
}

}  // namespace HWY_NAMESPACE::winograd_simd
}  // namespace starling
HWY_AFTER_NAMESPACE();
#endif
