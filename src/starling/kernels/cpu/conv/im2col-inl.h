// Per-target: the functions of im2col.h. Included once for each Highway target.
#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "starling/kernels/cpu/conv/im2col.h"
#include "starling/kernels/cpu/gemm/gemm_pack-inl.h"

#if defined(STARLING_IM2COL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_IM2COL_INL_H
#undef STARLING_IM2COL_INL_H
#else
#define STARLING_IM2COL_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::im2col_simd {
namespace hn = hwy::HWY_NAMESPACE;
using gemm_simd::load_first;
using gemm_simd::store_first;

// Output positions o of [0, out) whose input position o * stride + offset lies in [0, in).
struct Valid {
  std::int64_t begin;
  std::int64_t end;
};

inline Valid valid_outputs(std::int64_t offset, std::int64_t stride, std::int64_t in, std::int64_t out) {
  if (offset >= 0 && offset + (out - 1) * stride < in) return {0, out};  // no division in the common case
  const std::int64_t begin = offset >= 0 ? 0 : std::min(out, (-offset + stride - 1) / stride);
  const std::int64_t end = offset >= in ? 0 : std::min(out, (in - 1 - offset) / stride + 1);
  return {begin, std::max(begin, end)};
}

// to[row, 0..width) = from[row, 0..width): rows are short, so the mask of the last vector is made once.
inline void copy_rows(const float* from, std::int64_t ld_from, float* to, std::int64_t ld_to, std::int64_t rows,
                      std::int64_t width) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t L = HWY_LANES(float);
  if (width == 8 && L >= 8) {
    const hn::CappedTag<float, 8> half;
    for (std::int64_t r = 0; r < rows; ++r) hn::StoreU(hn::LoadU(half, from + r * ld_from), half, to + r * ld_to);
    return;
  }
  const std::int64_t whole = width / L * L;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* source = from + r * ld_from;
    float* target = to + r * ld_to;
    for (std::int64_t c = 0; c < whole; c += L) hn::StoreU(hn::LoadU(d, source + c), d, target + c);
    if (whole < width) store_first(load_first(d, source + whole, width - whole), d, target + whole, width - whole);
  }
}

// One row of the tap matrix: the input seen through one tap, over the band.
inline void tap_plane(const Conv2dShape& s, std::int64_t out_h, std::int64_t out_w, const float* plane, std::int64_t kh,
                      std::int64_t kw, RowRange band, float* to) {
  const std::int64_t row_offset = kh * s.dilation_h - s.pad_h;
  const std::int64_t offset = kw * s.dilation_w - s.pad_w;
  const Valid rows = valid_outputs(row_offset, s.stride_h, s.in_h, out_h);
  const Valid cols = valid_outputs(offset, s.stride_w, s.in_w, out_w);
  const std::int64_t first = std::clamp(rows.begin, band.begin, band.end);
  const std::int64_t last = std::clamp(rows.end, first, band.end);
  std::fill(to, to + (first - band.begin) * out_w, 0.0F);
  std::fill(to + (last - band.begin) * out_w, to + (band.end - band.begin) * out_w, 0.0F);
  to += (first - band.begin) * out_w;
  if (cols.begin > 0 || cols.end < out_w) {
    for (std::int64_t r = 0; r < last - first; ++r) {
      std::fill(to + r * out_w, to + r * out_w + cols.begin, 0.0F);
      std::fill(to + r * out_w + cols.end, to + (r + 1) * out_w, 0.0F);
    }
  }
  const float* from = plane + (first * s.stride_h + row_offset) * s.in_w;
  if (s.stride_w == 1) {
    copy_rows(from + cols.begin + offset, s.stride_h * s.in_w, to + cols.begin, out_w, last - first,
              cols.end - cols.begin);
    return;
  }
  for (std::int64_t r = 0; r < last - first; ++r) {
    const float* source = from + r * s.stride_h * s.in_w;
    for (std::int64_t c = cols.begin; c < cols.end; ++c) to[r * out_w + c] = source[c * s.stride_w + offset];
  }
}

inline void to_columns(const Conv2dShape& s, const float* image, RowRange band, float* taps, std::int64_t ld) {
  const std::int64_t out_h = s.out_h();
  const std::int64_t out_w = s.out_w();
  for (std::int64_t c = 0; c < s.group_in(); ++c) {
    const float* plane = image + c * s.in_h * s.in_w;
    for (std::int64_t kh = 0; kh < s.kernel_h; ++kh) {
      for (std::int64_t kw = 0; kw < s.kernel_w; ++kw, taps += ld)
        tap_plane(s, out_h, out_w, plane, kh, kw, band, taps);
    }
  }
}

// Copies the window of one position that lies inside the image and whose rows are runs of at most one vector: each run
// is stored as a whole vector, and the excess is overwritten by the next.
template <class D>
HWY_INLINE void copy_window(D d, const Conv2dShape& s, std::int64_t channels, const float* corner, float* to) {
  const std::int64_t width = s.kernel_w;
  const std::int64_t height = s.kernel_h;
  const std::int64_t row_step = s.dilation_h * s.in_w;
  const std::int64_t plane = s.in_h * s.in_w;
  for (std::int64_t c = channels; c > 0; --c, corner += plane) {
    const float* row = corner;
    for (std::int64_t kh = 0; kh < height; ++kh, row += row_step, to += width)
      hn::StoreU(load_first(d, row, width), d, to);
  }
}

inline void copy_window_with_border(const Conv2dShape& s, const float* image, std::int64_t ih, std::int64_t iw,
                                    float* to) {
  for (std::int64_t c = 0; c < s.group_in(); ++c, image += s.in_h * s.in_w) {
    for (std::int64_t kh = 0; kh < s.kernel_h; ++kh) {
      const std::int64_t h = ih + kh * s.dilation_h;
      for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
        const std::int64_t w = iw + kw * s.dilation_w;
        *to++ = h >= 0 && h < s.in_h && w >= 0 && w < s.in_w ? image[h * s.in_w + w] : 0.0F;
      }
    }
  }
}

inline void to_rows(const Conv2dShape& s, const float* image, RowRange band, float* taps, std::int64_t ld) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 8> half;
  const bool runs = s.dilation_w == 1 && s.kernel_w <= static_cast<std::int64_t>(HWY_LANES(float));
  const std::int64_t span_h = (s.kernel_h - 1) * s.dilation_h;
  const std::int64_t span_w = (s.kernel_w - 1) * s.dilation_w;
  const std::int64_t out_w = s.out_w();
  const std::int64_t used = s.taps();
  const std::int64_t channels = s.group_in();
  for (std::int64_t oh = band.begin; oh < band.end; ++oh) {
    const std::int64_t ih = oh * s.stride_h - s.pad_h;
    for (std::int64_t ow = 0; ow < out_w; ++ow, taps += ld) {
      const std::int64_t iw = ow * s.stride_w - s.pad_w;
      const bool inside = ih >= 0 && iw >= 0 && ih + span_h < s.in_h && iw + span_w < s.in_w;
      if (!runs || !inside) {
        copy_window_with_border(s, image, ih, iw, taps);
      } else if (s.kernel_w <= 8) {
        copy_window(half, s, channels, image + ih * s.in_w + iw, taps);
      } else {
        copy_window(d, s, channels, image + ih * s.in_w + iw, taps);
      }
      // Zeroes the gap after the taps, which is multiplied too: old scratch could hold a NaN there.
      std::fill(taps + used, taps + ld, 0.0F);
    }
  }
}

// Taps of a kernel row that reach into one vector of image columns.
constexpr std::int64_t kMaxReaching = 32;

struct Reaching {
  hn::Mask<hn::ScalableTag<float>> mask[kMaxReaching];
  std::int64_t offset[kMaxReaching];  // offset of the vector's first lane, within the taps of one kernel row
  std::int64_t count = 0;

  Reaching(const Conv2dShape& s, std::int64_t out_w, std::int64_t ld, std::int64_t base) {
    const hn::ScalableTag<float> d;
    constexpr std::int64_t L = HWY_LANES(float);
    for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
      const std::int64_t ow = base + s.pad_w - kw * s.dilation_w;
      const std::int64_t begin = std::clamp<std::int64_t>(-ow, 0, L);
      const std::int64_t end = std::clamp<std::int64_t>(out_w - ow, 0, L);
      if (begin >= end) continue;
      mask[count] =
          hn::AndNot(hn::FirstN(d, static_cast<std::size_t>(begin)), hn::FirstN(d, static_cast<std::size_t>(end)));
      offset[count++] = kw * ld + ow;
    }
  }
};

// Stride 1: accumulates the taps of a vector of the image in a register, instead of adding each tap to memory.
inline void collect(const Conv2dShape& s, std::int64_t out_w, const float* taps, std::int64_t ld, RowRange band,
                    std::int64_t base, float* image) {
  const hn::ScalableTag<float> d;
  const Reaching reaching(s, out_w, ld, base);
  const std::int64_t count = std::min<std::int64_t>(HWY_LANES(float), s.in_w - base);
  const std::int64_t first = std::max<std::int64_t>(0, band.begin - s.pad_h);
  const std::int64_t last = std::min(s.in_h, band.end - s.pad_h + (s.kernel_h - 1) * s.dilation_h);
  const std::int64_t channels = s.group_in();
  for (std::int64_t c = 0; c < channels; ++c, taps += s.kernel_h * s.kernel_w * ld, image += s.in_h * s.in_w) {
    for (std::int64_t ih = first; ih < last; ++ih) {
      float* to = image + ih * s.in_w + base;
      auto even = load_first(d, to, count);
      auto odd = hn::Zero(d);
      for (std::int64_t kh = 0; kh < s.kernel_h; ++kh) {
        const std::int64_t oh = ih + s.pad_h - kh * s.dilation_h;
        if (oh < band.begin || oh >= band.end) continue;
        const float* from = taps + kh * s.kernel_w * ld + (oh - band.begin) * out_w;
        std::int64_t i = 0;
        for (; i + 2 <= reaching.count; i += 2) {
          even = hn::Add(even, hn::IfThenElseZero(reaching.mask[i], hn::LoadU(d, from + reaching.offset[i])));
          odd = hn::Add(odd, hn::IfThenElseZero(reaching.mask[i + 1], hn::LoadU(d, from + reaching.offset[i + 1])));
        }
        if (i < reaching.count) {
          even = hn::Add(even, hn::IfThenElseZero(reaching.mask[i], hn::LoadU(d, from + reaching.offset[i])));
        }
      }
      store_first(hn::Add(even, odd), d, to, count);
    }
  }
}

inline void scatter_plane(const Conv2dShape& s, std::int64_t out_w, const float* taps, std::int64_t ld, RowRange band,
                          float* plane) {
  for (std::int64_t kh = 0; kh < s.kernel_h; ++kh) {
    for (std::int64_t kw = 0; kw < s.kernel_w; ++kw, taps += ld) {
      const std::int64_t offset = kw * s.dilation_w - s.pad_w;
      const Valid cols = valid_outputs(offset, s.stride_w, s.in_w, out_w);
      for (std::int64_t oh = band.begin; oh < band.end; ++oh) {
        const std::int64_t ih = oh * s.stride_h + kh * s.dilation_h - s.pad_h;
        if (ih < 0 || ih >= s.in_h) continue;
        const float* from = taps + (oh - band.begin) * out_w;
        float* row = plane + ih * s.in_w + offset;
        for (std::int64_t c = cols.begin; c < cols.end; ++c) row[c * s.stride_w] += from[c];
      }
    }
  }
}

inline void add_columns(const Conv2dShape& s, const float* taps, std::int64_t ld, RowRange band, float* image) {
  const std::int64_t out_w = s.out_w();
  if (s.stride_h == 1 && s.stride_w == 1 && s.kernel_w <= kMaxReaching) {
    constexpr std::int64_t L = HWY_LANES(float);
    for (std::int64_t base = 0; base < s.in_w; base += L) collect(s, out_w, taps, ld, band, base, image);
    return;
  }
  for (std::int64_t c = 0; c < s.group_in(); ++c) {
    scatter_plane(s, out_w, taps + c * s.kernel_h * s.kernel_w * ld, ld, band, image + c * s.in_h * s.in_w);
  }
}

}  // namespace HWY_NAMESPACE::im2col_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();
#endif
