#include "starling/kernels/cpu/pool_index.h"

#include <algorithm>
#include <type_traits>

#include "starling/base/error.h"
#include "starling/base/parallel.h"

namespace starling {
namespace {

bool is_two(const Pool2dShape& s) {
  return s.kernel_h == 2 && s.kernel_w == 2 && s.stride_h == 2 && s.stride_w == 2 && s.pad_h == 0 && s.pad_w == 0;
}

// Calls body(plane) for every plane, contiguous pieces a thread.
template <class Body>
void each_plane(const Pool2dShape& s, int threads, const Body& body) {
  constexpr std::int64_t kGrain = 8192;
  const std::int64_t work = std::max<std::int64_t>(s.in_h * s.in_w, 1);
  const std::int64_t pieces = std::clamp<std::int64_t>(
      s.planes * work / kGrain, 1, std::min<std::int64_t>(threads, std::max<std::int64_t>(s.planes, 1)));
  parallel_run(static_cast<int>(pieces), [&](int piece) {
    for (std::int64_t p = s.planes * piece / pieces; p < s.planes * (piece + 1) / pieces; ++p) body(p);
  });
}

// The element of a plane that tap t of window (i, j) means; -1 outside the image.
std::int64_t element(const Pool2dShape& s, std::int64_t i, std::int64_t j, std::int64_t tap) {
  const std::int64_t row = i * s.stride_h - s.pad_h + tap / s.kernel_w,
                     col = j * s.stride_w - s.pad_w + tap % s.kernel_w;
  const bool inside = tap < s.kernel_h * s.kernel_w && row >= 0 && row < s.in_h && col >= 0 && col < s.in_w;
  return inside ? row * s.in_w + col : -1;
}

template <class T>
void choose_plane(const Pool2dShape& s, const T* x, T* y, std::uint8_t* index) {
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  for (std::int64_t i = 0; i < out_h; ++i) {
    const std::int64_t top = i * s.stride_h - s.pad_h, row_end = std::min(s.kernel_h, s.in_h - top);
    for (std::int64_t j = 0; j < out_w; ++j, ++y, ++index) {
      const std::int64_t left = j * s.stride_w - s.pad_w, col_end = std::min(s.kernel_w, s.in_w - left);
      bool first = true;
      for (std::int64_t r = std::max<std::int64_t>(0, -top); r < row_end; ++r) {
        for (std::int64_t c = std::max<std::int64_t>(0, -left); c < col_end; ++c) {
          const T value = x[(top + r) * s.in_w + left + c];
          if (!first && !(value > *y) && !(value != value && *y == *y)) continue;
          *y = value;
          *index = static_cast<std::uint8_t>(r * s.kernel_w + c);
          first = false;
        }
      }
    }
  }
}

// Calls f(window, element of x) for the chosen elements of a plane.
template <class F>
void each_chosen(const Pool2dShape& s, const std::uint8_t* index, const F& f) {
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < out_h; ++i) {
    for (std::int64_t j = 0; j < out_w; ++j, ++at) {
      const std::int64_t from = element(s, i, j, index[at]);
      check(from >= 0, "[max_pool2d] expected an index inside its window and the image, got {} for window [{}, {}]",
            index[at], i, j);
      f(at, from);
    }
  }
}

}  // namespace

template <class T>
void max_pool2d_choose(const Pool2dShape& s, const T* x, T* y, std::uint8_t* index, int threads) {
  const std::int64_t from = s.in_h * s.in_w, to = s.out_h() * s.out_w();
  each_plane(s, threads, [&](std::int64_t p) {
    if constexpr (std::is_same_v<T, float>) {
      if (is_two(s)) return max_pool_two_choose(x + p * from, s.in_w, s.out_h(), s.out_w(), y + p * to, index + p * to);
    }
    choose_plane(s, x + p * from, y + p * to, index + p * to);
  });
}

template <class T>
void max_pool2d_scatter(const Pool2dShape& s, const T* dy, const std::uint8_t* index, T* dx, int threads) {
  const std::int64_t from = s.out_h() * s.out_w(), to = s.in_h * s.in_w;
  const bool covered = is_two(s) && s.in_h == 2 * s.out_h() && s.in_w == 2 * s.out_w();
  each_plane(s, threads, [&](std::int64_t p) {
    if (!covered || !std::is_same_v<T, float>) std::fill_n(dx + p * to, to, T{0});
    if constexpr (std::is_same_v<T, float>) {
      if (is_two(s)) {
        check(max_pool_two_scatter(dy + p * from, index + p * from, s.in_w, s.out_h(), s.out_w(), dx + p * to),
              "[max_pool2d] expected indices below 4 of 2 x 2 windows, got a larger one in plane {}", p);
        return;
      }
    }
    each_chosen(s, index + p * from,
                [&](std::int64_t at, std::int64_t chosen) { dx[p * to + chosen] += dy[p * from + at]; });
  });
}

template <class T>
void max_pool2d_gather(const Pool2dShape& s, const T* x, const std::uint8_t* index, T* y, int threads) {
  const std::int64_t from = s.in_h * s.in_w, to = s.out_h() * s.out_w();
  each_plane(s, threads, [&](std::int64_t p) {
    each_chosen(s, index + p * to,
                [&](std::int64_t at, std::int64_t chosen) { y[p * to + at] = x[p * from + chosen]; });
  });
}

template void max_pool2d_choose<float>(const Pool2dShape&, const float*, float*, std::uint8_t*, int);
template void max_pool2d_choose<double>(const Pool2dShape&, const double*, double*, std::uint8_t*, int);
template void max_pool2d_scatter<float>(const Pool2dShape&, const float*, const std::uint8_t*, float*, int);
template void max_pool2d_scatter<double>(const Pool2dShape&, const double*, const std::uint8_t*, double*, int);
template void max_pool2d_gather<float>(const Pool2dShape&, const float*, const std::uint8_t*, float*, int);
template void max_pool2d_gather<double>(const Pool2dShape&, const double*, const std::uint8_t*, double*, int);

}  // namespace starling
