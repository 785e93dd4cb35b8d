#pragma once

#include "starling/kernels/cpu/pool/pool_windows.h"

namespace starling::kernels {

// Pooling of dense planes. Threads share out planes; results do not depend on their number. T is float or double; rows
// of floats use vectors where PoolWindows allows.

// Largest element of each window and, unless index is null, its index in the plane. The first of equal elements counts;
// a NaN wins over numbers.
template <class T>
void max_pool(const PoolWindows& windows, const T* x, T* y, std::int32_t* index, int threads);

// Sizes of planes and of the positions given per plane.
struct PositionShape {
  std::int64_t planes = 0;
  std::int64_t image = 0;
  std::int64_t positions = 0;
  std::int64_t row = 0;  // positions per row if the image is exactly twice as high and wide; else 0
};
// dx = dy at the positions, summed where they coincide, else 0. Throws when a position lies outside the image.
template <class T>
void max_pool_scatter(const PositionShape& shape, const T* dy, const std::int32_t* index, T* dx, int threads);
// y = x at the positions. Throws when a position lies outside the image.
template <class T>
void max_pool_gather(const PositionShape& shape, const T* x, const std::int32_t* index, T* y, int threads);

template <class T>
void avg_pool(const PoolWindows& windows, const T* x, T* y, int threads);
// `rows` is scratch for one row of the image per thread.
template <class T>
void avg_pool_backward(const PoolWindows& windows, const T* dy, T* dx, T* rows, int threads);

template <class T>
void lp_pool(const PoolWindows& windows, double p, const T* x, T* y, int threads);

// Vector paths over planes [first, end), for floats.
void max_pool_planes(const PoolWindows& windows, const float* x, float* y, std::int32_t* index, std::int64_t first,
                     std::int64_t end);
void avg_pool_planes(const PoolWindows& windows, const float* x, float* y, std::int64_t first, std::int64_t end);
// y = scale · the sum of each plane, for planes of few elements.
void avg_pool_whole(const float* x, float* y, std::int64_t planes, std::int64_t volume, double scale);

// Scatters one plane whose positions each lie in their own 2 × 2 window; returns false, with dx half written, if one
// does not.
bool scatter_two(const float* dy, const std::int32_t* index, std::int64_t rows, std::int64_t columns, float* dx);

// One window, computed naively.
template <class T>
void max_window(const PoolWindows& w, const T* plane, const PoolSpan& d, const PoolSpan& h, const PoolSpan& c, T* y,
                std::int32_t* index) {
  std::int64_t place = (d.begin * w.in[1] + h.begin) * w.in[2] + c.begin;
  T best = plane[place];
  for (std::int64_t i = d.begin; i < d.end; i += w.step[0]) {
    for (std::int64_t j = h.begin; j < h.end; j += w.step[1]) {
      const std::int64_t row = (i * w.in[1] + j) * w.in[2];
      for (std::int64_t at = row + c.begin; at < row + c.end; at += w.step[2]) {
        if (!(plane[at] > best) && !(plane[at] != plane[at] && best == best)) continue;
        best = plane[at];
        place = at;
      }
    }
  }
  *y = best;
  if (index) *index = static_cast<std::int32_t>(place);
}

template <class T>
T mean_window(const PoolWindows& w, const T* plane, const PoolSpan& d, const PoolSpan& h, const PoolSpan& c) {
  T sum = 0;
  for (std::int64_t i = d.begin; i < d.end; ++i) {
    for (std::int64_t j = h.begin; j < h.end; ++j) {
      const T* row = plane + (i * w.in[1] + j) * w.in[2];
      for (std::int64_t at = c.begin; at < c.end; ++at) sum += row[at];
    }
  }
  return static_cast<T>(static_cast<double>(sum) / (w.divisor > 0 ? w.divisor : d.count * h.count * c.count));
}

}  // namespace starling::kernels
