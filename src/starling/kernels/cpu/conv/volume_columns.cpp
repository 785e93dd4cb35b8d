#include <algorithm>

#include "starling/kernels/cpu/conv/conv_columns.h"

namespace starling::kernels {
namespace {

// One tap over a run of output columns of one output row: input column = o * stride + offset, inside [0, size).
struct Run {
  std::int64_t begin, end;  // output columns whose input column lies inside
  std::int64_t offset;
};

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

Run inside(const ConvGeometry& g, std::int64_t tap) {
  const std::int64_t offset = tap * g.dilation[2] - g.padding[2], stride = g.stride[2];
  const std::int64_t begin = std::min(g.y[4], divide_up(-offset, stride));
  const std::int64_t end = std::min(g.y[4], divide_up(g.x[4] - offset, stride));
  return {begin, std::max(begin, end), offset};
}

// Calls f(input row or -1, first output column, output columns, index in the range) for every output row of a range,
// for one tap (kd, kh).
template <class F>
void each_row(const ConvGeometry& g, PositionRange at, std::int64_t kd, std::int64_t kh, F&& f) {
  const std::int64_t width = g.y[4];
  for (std::int64_t p = at.begin; p < at.end;) {
    const std::int64_t row = p / width, col = p % width, count = std::min(width - col, at.end - p);
    const std::int64_t d = row / g.y[3] * g.stride[0] - g.padding[0] + kd * g.dilation[0];
    const std::int64_t h = row % g.y[3] * g.stride[1] - g.padding[1] + kh * g.dilation[1];
    const bool in = d >= 0 && d < g.x[2] && h >= 0 && h < g.x[3];
    f(in ? (d * g.x[3] + h) * g.x[4] : -1, col, count, p - at.begin);
    p += count;
  }
}

}  // namespace

template <class T>
void volume_to_columns(const ConvGeometry& g, std::int64_t channels, const T* image, PositionRange at, T* columns,
                       std::int64_t ld) {
  const std::int64_t stride = g.stride[2];
  for (std::int64_t c = 0; c < channels; ++c, image += g.x[2] * g.x[3] * g.x[4]) {
    for (std::int64_t kd = 0; kd < g.w[2]; ++kd) {
      for (std::int64_t kh = 0; kh < g.w[3]; ++kh) {
        for (std::int64_t kw = 0; kw < g.w[4]; ++kw, columns += ld) {
          const Run run = inside(g, kw);
          each_row(g, at, kd, kh, [&](std::int64_t row, std::int64_t col, std::int64_t count, std::int64_t place) {
            T* to = columns + place - col;
            const std::int64_t begin = std::clamp(run.begin, col, col + count);
            const std::int64_t end = row < 0 ? begin : std::clamp(run.end, begin, col + count);
            std::fill(to + col, to + begin, T(0));
            std::fill(to + end, to + col + count, T(0));
            if (begin == end) return;
            const T* from = image + row + run.offset;
            if (stride == 1) {
              std::copy(from + begin, from + end, to + begin);
            } else {
              for (std::int64_t o = begin; o < end; ++o) to[o] = from[o * stride];
            }
          });
        }
      }
    }
  }
}

template <class T>
void add_columns_to_volume(const ConvGeometry& g, std::int64_t channels, const T* columns, std::int64_t ld,
                           PositionRange at, T* image) {
  const std::int64_t stride = g.stride[2];
  for (std::int64_t c = 0; c < channels; ++c, image += g.x[2] * g.x[3] * g.x[4]) {
    for (std::int64_t kd = 0; kd < g.w[2]; ++kd) {
      for (std::int64_t kh = 0; kh < g.w[3]; ++kh) {
        for (std::int64_t kw = 0; kw < g.w[4]; ++kw, columns += ld) {
          const Run run = inside(g, kw);
          each_row(g, at, kd, kh, [&](std::int64_t row, std::int64_t col, std::int64_t count, std::int64_t place) {
            const T* from = columns + place - col;
            const std::int64_t begin = std::clamp(run.begin, col, col + count);
            const std::int64_t end = row < 0 ? begin : std::clamp(run.end, begin, col + count);
            if (begin == end) return;
            T* to = image + row + run.offset;
            if (stride == 1) {
              for (std::int64_t o = begin; o < end; ++o) to[o] += from[o];
            } else {
              for (std::int64_t o = begin; o < end; ++o) to[o * stride] += from[o];
            }
          });
        }
      }
    }
  }
}

template void volume_to_columns(const ConvGeometry&, std::int64_t, const float*, PositionRange, float*, std::int64_t);
template void volume_to_columns(const ConvGeometry&, std::int64_t, const double*, PositionRange, double*, std::int64_t);
template void add_columns_to_volume(const ConvGeometry&, std::int64_t, const float*, std::int64_t, PositionRange,
                                    float*);
template void add_columns_to_volume(const ConvGeometry&, std::int64_t, const double*, std::int64_t, PositionRange,
                                    double*);

}  // namespace starling::kernels
