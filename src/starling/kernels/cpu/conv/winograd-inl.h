// Per-target: the image transforms of winograd.h. Included once for each Highway target.
#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "starling/kernels/cpu/conv/winograd.h"
#include "starling/kernels/cpu/conv/winograd_lines-inl.h"
#include "starling/kernels/cpu/gemm/gemm_pack-inl.h"

#if defined(STARLING_WINOGRAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_WINOGRAD_INL_H
#undef STARLING_WINOGRAD_INL_H
#else
#define STARLING_WINOGRAD_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::winograd_simd {
using gemm_simd::load_first;
using gemm_simd::store_first;

HWY_INLINE void store_some(Vec v, float* to, std::int64_t count) {
  const D d;
  if (count >= kLanes) {
    hn::StoreU(v, d, to);
  } else {
    store_first(v, d, to, count);
  }
}

// Tiles of one image within a range.
struct Part {
  std::int64_t image, begin, end;  // tiles of the image
  std::int64_t place;              // index of the first within the range
};

template <class F>
HWY_INLINE void each_part(const WinogradImages& s, WinogradRange tiles, const F& f) {
  const std::int64_t per_image = s.tile_rows * s.tile_cols;
  for (std::int64_t t = tiles.begin; t < tiles.end;) {
    const std::int64_t image = t / per_image, stop = std::min(tiles.end, (image + 1) * per_image);
    f(Part{image, t - image * per_image, stop - image * per_image, t - tiles.begin});
    t = stop;
  }
}

// Calls f(tile, address in the planes of channel 0, count) for vectors of contiguous tiles.
template <class F>
HWY_INLINE void each_vector(const Part& part, const WinogradPlanes& planes, const F& f) {
  for (std::int64_t t = part.begin; t < part.end;) {
    const std::int64_t place = part.place + t - part.begin, column = place % planes.width;
    const std::int64_t count = std::min({kLanes, part.end - t, planes.width - column});
    f(t, place / planes.width * planes.panel + column, count);
    t += count;
  }
}

// v[k] = row[k, k + kStep, ..].
template <int kStep>
HWY_INLINE void load_apart(const float* row, Vec (&v)[kStep]) {
  const D d;
  if constexpr (kStep == 4) {
    hn::LoadInterleaved4(d, row, v[0], v[1], v[2], v[3]);
  } else {
    hn::LoadInterleaved2(d, row, v[0], v[1]);
  }
}
template <int kStep>
HWY_INLINE void store_together(const Vec (&v)[kStep], float* to) {
  const D d;
  if constexpr (kStep == 4) {
    hn::StoreInterleaved4(v[0], v[1], v[2], v[3], d, to);
  } else {
    hn::StoreInterleaved2(v[0], v[1], d, to);
  }
}

// Pixels of some rows of tiles of one channel, sorted by their position in a tile, so that pixel (i, j) of consecutive
// tiles is contiguous across the rows of the image.
template <int kStep, int kWide>
class Sorted {
 public:
  Sorted(const WinogradImages& s, float* memory)
      : s_(s), line_(memory), line_floats_(line_floats(s)), memory_(memory + line_floats_) {}

  static std::int64_t line_floats(const WinogradImages& s) { return kStep * s.tile_cols + s.pad_w + s.width + 80; }
  static std::int64_t pitch(const WinogradImages& s, std::int64_t tile_rows) {
    return (tile_rows + kWide / kStep) * s.tile_cols + 32;
  }
  static std::int64_t floats(const WinogradImages& s) { return line_floats(s) + kStep * kWide * pitch(s, s.tile_rows); }

  // Loads rows [first, last) of tiles of one channel of an image.
  void load(const float* plane, std::int64_t first, std::int64_t last) {
    pitch_ = pitch(s_, last - first);
    std::fill(line_, line_ + s_.pad_w, 0.0F);
    std::fill(line_ + s_.pad_w + s_.width, line_ + line_floats_, 0.0F);
    const std::int64_t rows = kStep * (last - first) + kWide - kStep;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t h = kStep * first + row - s_.pad_h;
      const bool inside = h >= 0 && h < s_.height;
      if (inside) std::copy_n(plane + h * s_.width, s_.width, line_ + s_.pad_w);
      sort_line(inside, memory_ + row % kStep * kWide * pitch_ + row / kStep * s_.tile_cols);
    }
  }

  // Pixel (i, j) of the tiles from `tile` on, counted from the first loaded.
  HWY_INLINE Vec at(int i, int j, std::int64_t tile) const {
    return hn::LoadU(D(), memory_ + (i % kStep * kWide + j) * pitch_ + i / kStep * s_.tile_cols + tile);
  }

 private:
  HWY_INLINE void sort_line(bool inside, float* to) const {
    const D d;
    for (std::int64_t c = 0; c < s_.tile_cols; c += kLanes) {
#pragma GCC unroll 3
      for (int group = 0; group < kWide; group += kStep) {
        Vec v[kStep];
        if (inside) {
          load_apart<kStep>(line_ + kStep * c + group, v);
        } else {
          std::fill(v, v + kStep, hn::Zero(d));
        }
#pragma GCC unroll 4
        for (int k = 0; k < kStep; ++k) {
          if (group + k < kWide) hn::StoreU(v[k], d, to + (group + k) * pitch_ + c);
        }
      }
    }
  }

  const WinogradImages& s_;
  float* line_;
  std::int64_t line_floats_;
  float* memory_;
  std::int64_t pitch_ = 0;
};

// Stores Bᵀ x B or A dy Aᵀ of kLanes tiles to the planes.
template <class S, bool kGradient, class Pixels>
HWY_INLINE void transform_in(const Pixels& pixels, std::int64_t tile, float* to, std::int64_t plane,
                             std::int64_t count) {
  constexpr int kWide = kGradient ? S::kOut : S::kTile, kTile = S::kTile;
  const auto line = [](const Vec(&from)[kWide], Vec(&into)[kTile]) HWY_ATTR {
    if constexpr (kGradient) {
      S::gradient(from, into);
    } else {
      S::input(from, into);
    }
  };
  Vec half[kTile][kWide];
#pragma GCC unroll 6
  for (int j = 0; j < kWide; ++j) {
    Vec column[kWide], made[kTile];
#pragma GCC unroll 6
    for (int i = 0; i < kWide; ++i) column[i] = pixels.at(i, j, tile);
    line(column, made);
#pragma GCC unroll 6
    for (int i = 0; i < kTile; ++i) half[i][j] = made[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTile; ++i) {
    Vec made[kTile];
    line(half[i], made);
#pragma GCC unroll 6
    for (int j = 0; j < kTile; ++j) store_some(made[j], to + (i * kTile + j) * plane, count);
  }
}

template <class S, bool kGradient>
void images_to_planes(const WinogradImages& s, const float* x, WinogradRange channels, WinogradRange tiles,
                      const WinogradPlanes& to, float* memory) {
  Sorted<S::kOut, kGradient ? S::kOut : S::kTile> pixels(s, memory);
  const std::int64_t size = s.height * s.width;
  each_part(s, tiles, [&](const Part& part) HWY_ATTR {
    const std::int64_t first = part.begin / s.tile_cols, last = (part.end - 1) / s.tile_cols + 1;
    for (std::int64_t c = channels.begin; c < channels.end; ++c) {
      pixels.load(x + (part.image * s.channels + c) * size, first, last);
      each_vector(part, to, [&](std::int64_t tile, std::int64_t at, std::int64_t count) HWY_ATTR {
        transform_in<S, kGradient>(pixels, tile - first * s.tile_cols, to.at + c * to.ld + at, to.plane, count);
      });
    }
  });
}

// Aᵀ m A of kLanes tiles: row i of the outputs goes to rows + i * pitch, the outputs of a tile contiguous.
template <class S>
HWY_INLINE void transform_out(const float* from, std::int64_t plane, float* rows, std::int64_t pitch) {
  constexpr int kTile = S::kTile, kOut = S::kOut;
  const D d;
  Vec half[kOut][kTile];
#pragma GCC unroll 6
  for (int j = 0; j < kTile; ++j) {
    Vec column[kTile], made[kOut];
#pragma GCC unroll 6
    for (int i = 0; i < kTile; ++i) column[i] = hn::LoadU(d, from + (i * kTile + j) * plane);
    S::output(column, made);
#pragma GCC unroll 4
    for (int i = 0; i < kOut; ++i) half[i][j] = made[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < kOut; ++i) {
    Vec made[kOut];
    S::output(half[i], made);
    store_together<kOut>(made, rows + i * pitch);
  }
}

HWY_INLINE void finish_row(const float* from, std::int64_t count, float bias, bool relu, float* to) {
  const D d;
  const Vec add = hn::Set(d, bias);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const Vec sum = hn::Add(hn::LoadU(d, from + i), add);
    store_some(relu ? hn::IfThenZeroElse(hn::Lt(sum, hn::Zero(d)), sum) : sum, to + i, count - i);  // keeps NaN
  }
}

template <class S>
void planes_to_images(const WinogradImages& s, const WinogradPlanes& from, WinogradRange tiles, const float* bias,
                      bool relu, float* y, float* memory) {
  constexpr std::int64_t kOut = S::kOut;
  each_part(s, tiles, [&](const Part& part) HWY_ATTR {
    const std::int64_t pitch = kOut * (part.end - part.begin + kLanes);
    for (std::int64_t c = 0; c < s.channels; ++c) {
      each_vector(part, from, [&](std::int64_t tile, std::int64_t at, std::int64_t) HWY_ATTR {
        transform_out<S>(from.at + c * from.ld + at, from.plane, memory + kOut * (tile - part.begin), pitch);
      });
      float* image = y + (part.image * s.channels + c) * s.height * s.width;
      for (std::int64_t t = part.begin; t < part.end;) {
        const std::int64_t row = t / s.tile_cols, stop = std::min(part.end, (row + 1) * s.tile_cols);
        const std::int64_t col = kOut * (t - row * s.tile_cols), count = std::min(kOut * (stop - t), s.width - col);
        for (std::int64_t i = 0; i < std::min(kOut, s.height - kOut * row); ++i) {
          finish_row(memory + i * pitch + kOut * (t - part.begin), count, bias ? bias[c] : 0.0F, relu,
                     image + (kOut * row + i) * s.width + col);
        }
        t = stop;
      }
    }
  });
}

}  // namespace HWY_NAMESPACE::winograd_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();
#endif
