#include "starling/kernels/cpu/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/pool_two.h"

namespace starling {
namespace {

constexpr std::int64_t kElementsPerThread = 32 * 1024;  // input elements that pay for waking one more thread

void check_shape(const Pool2dShape& s) {
  check(s.planes >= 0 && s.kernel_h >= 1 && s.kernel_w >= 1 && s.stride_h >= 1 && s.stride_w >= 1,
        "[pool2d] expected positive kernel and stride, got kernel {}x{} stride {}x{}", s.kernel_h, s.kernel_w,
        s.stride_h, s.stride_w);
  check(s.pad_h >= 0 && s.pad_w >= 0 && 2 * s.pad_h <= s.kernel_h && 2 * s.pad_w <= s.kernel_w,
        "[pool2d] expected padding of at most half the kernel {}x{}, got {}x{}", s.kernel_h, s.kernel_w, s.pad_h,
        s.pad_w);
  check(s.in_h + 2 * s.pad_h >= s.kernel_h && s.in_w + 2 * s.pad_w >= s.kernel_w,
        "[pool2d] expected a padded image of at least {}x{}, got {}x{}", s.kernel_h, s.kernel_w, s.in_h, s.in_w);
}

// Whole windows of 2 x 2; a last odd row or column belongs to none.
bool is_two(const Pool2dShape& s) {
  return s.kernel_h == 2 && s.kernel_w == 2 && s.stride_h == 2 && s.stride_w == 2 && s.pad_h == 0 && s.pad_w == 0 &&
         2 * s.out_h() <= s.in_h && 2 * s.out_w() <= s.in_w;
}

// Calls body(first, count) for one range of planes a thread.
template <class Body>
void for_plane_ranges(const Pool2dShape& s, int threads, const Body& body) {
  const std::int64_t elements = s.planes * s.in_h * s.in_w;
  const std::int64_t pieces =
      std::clamp<std::int64_t>(std::min(elements / kElementsPerThread, s.planes), 1, std::max(threads, 1));
  parallel_run(static_cast<int>(pieces), [&](int piece) {
    const std::int64_t first = s.planes * piece / pieces;
    body(first, s.planes * (piece + 1) / pieces - first);
  });
}

// Calls two(x offset, y offset, output rows) over runs of windows of 2 x 2, or any(x offset, y offset) plane by plane.
// Planes of an even height follow each other without a gap: they are one tall plane.
template <class Two, class Any>
void pool_planes(const Pool2dShape& s, int threads, const Two& two, const Any& any) {
  const bool vectors = is_two(s);
  const bool joined = vectors && s.in_h == 2 * s.out_h();
  const std::int64_t in = s.in_h * s.in_w;
  const std::int64_t out = s.out_h() * s.out_w();
  for_plane_ranges(s, threads, [&](std::int64_t first, std::int64_t count) {
    if (joined) return two(first * in, first * out, count * s.out_h());
    for (std::int64_t p = first; p < first + count; ++p) {
      if (vectors) {
        two(p * in, p * out, s.out_h());
      } else {
        any(p * in, p * out);
      }
    }
  });
}

// The part of a window that lies in the image, and what an average over it divides by.
struct Window {
  std::int64_t top, bottom, left, right;
  float divisor;
};

Window window_at(const Pool2dShape& s, std::int64_t oh, std::int64_t ow) {
  const std::int64_t top = oh * s.stride_h - s.pad_h;
  const std::int64_t left = ow * s.stride_w - s.pad_w;
  const std::int64_t bottom = std::min(top + s.kernel_h, s.in_h + s.pad_h);
  const std::int64_t right = std::min(left + s.kernel_w, s.in_w + s.pad_w);
  Window w{std::max<std::int64_t>(top, 0), std::min(bottom, s.in_h), std::max<std::int64_t>(left, 0),
           std::min(right, s.in_w), 0};
  const std::int64_t padded = (bottom - top) * (right - left);
  w.divisor = static_cast<float>(s.count_include_pad ? padded : (w.bottom - w.top) * (w.right - w.left));
  return w;
}

std::int64_t winner(const float* plane, const Pool2dShape& s, const Window& w) {
  std::int64_t best = w.top * s.in_w + w.left;
  float most = -std::numeric_limits<float>::infinity();
  for (std::int64_t h = w.top; h < w.bottom; ++h) {
    for (std::int64_t i = h * s.in_w + w.left; i < h * s.in_w + w.right; ++i) {
      if (!(plane[i] > most) && !std::isnan(plane[i])) continue;
      most = plane[i];
      best = i;
    }
  }
  return best;
}

// Calls body(window, output index) for every window of a plane.
template <class Body>
void for_windows(const Pool2dShape& s, const Body& body) {
  const std::int64_t out_w = s.out_w();
  for (std::int64_t oh = 0; oh < s.out_h(); ++oh) {
    for (std::int64_t ow = 0; ow < out_w; ++ow) body(window_at(s, oh, ow), oh * out_w + ow);
  }
}

float mean(const float* plane, const Pool2dShape& s, const Window& w) {
  float sum = 0;
  for (std::int64_t h = w.top; h < w.bottom; ++h) {
    for (std::int64_t c = w.left; c < w.right; ++c) sum += plane[h * s.in_w + c];
  }
  return sum / w.divisor;
}

void spread(float gradient, const Pool2dShape& s, const Window& w, float* plane) {
  const float share = gradient / w.divisor;
  for (std::int64_t h = w.top; h < w.bottom; ++h) {
    for (std::int64_t c = w.left; c < w.right; ++c) plane[h * s.in_w + c] += share;
  }
}

// The vector path writes every element that a window covers; only an odd rest needs zeros first.
void clear_uncovered(const Pool2dShape& s, float* dx) {
  if (is_two(s) && 2 * s.out_h() == s.in_h && 2 * s.out_w() == s.in_w) return;
  std::fill(dx, dx + s.planes * s.in_h * s.in_w, 0.0F);
}

}  // namespace

void max_pool2d_forward(const Pool2dShape& s, const float* x, float* y, int threads) {
  check_shape(s);
  pool_planes(
      s, threads,
      [&](std::int64_t in, std::int64_t out, std::int64_t rows) {
        max_pool_two(x + in, s.in_w, rows, s.out_w(), y + out);
      },
      [&](std::int64_t in, std::int64_t out) {
        for_windows(s, [&](const Window& w, std::int64_t i) { y[out + i] = x[in + winner(x + in, s, w)]; });
      });
}

void max_pool2d_backward(const Pool2dShape& s, const float* x, const float* dy, float* dx, int threads) {
  check_shape(s);
  clear_uncovered(s, dx);
  pool_planes(
      s, threads,
      [&](std::int64_t in, std::int64_t out, std::int64_t rows) {
        max_pool_two_gradient(x + in, dy + out, s.in_w, rows, s.out_w(), dx + in);
      },
      [&](std::int64_t in, std::int64_t out) {
        for_windows(s, [&](const Window& w, std::int64_t i) { dx[in + winner(x + in, s, w)] += dy[out + i]; });
      });
}

void avg_pool2d_forward(const Pool2dShape& s, const float* x, float* y, int threads) {
  check_shape(s);
  pool_planes(
      s, threads,
      [&](std::int64_t in, std::int64_t out, std::int64_t rows) {
        avg_pool_two(x + in, s.in_w, rows, s.out_w(), y + out);
      },
      [&](std::int64_t in, std::int64_t out) {
        for_windows(s, [&](const Window& w, std::int64_t i) { y[out + i] = mean(x + in, s, w); });
      });
}

void avg_pool2d_backward(const Pool2dShape& s, const float* dy, float* dx, int threads) {
  check_shape(s);
  clear_uncovered(s, dx);
  pool_planes(
      s, threads,
      [&](std::int64_t in, std::int64_t out, std::int64_t rows) {
        avg_pool_two_gradient(dy + out, s.in_w, rows, s.out_w(), dx + in);
      },
      [&](std::int64_t in, std::int64_t out) {
        for_windows(s, [&](const Window& w, std::int64_t i) { spread(dy[out + i], s, w, dx + in); });
      });
}

}  // namespace starling
