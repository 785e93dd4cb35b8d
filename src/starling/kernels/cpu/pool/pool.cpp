#include "starling/kernels/cpu/pool/pool.h"

#include <cmath>
#include <type_traits>

#include "starling/base/error.h"
#include "starling/kernels/cpu/reduce/reduce.h"

namespace starling::kernels {

template <class T>
void max_pool(const PoolWindows& w, const T* x, T* y, std::int32_t* index, int threads) {
  const std::int64_t in = w.in_volume(), out = w.out_volume();
  share_planes(w.planes, in, threads, [&](std::int64_t first, std::int64_t end, int) {
    if constexpr (std::is_same_v<T, float>) {
      if (w.inner_end > w.inner_begin) return max_pool_planes(w, x, y, index, first, end);
    }
    for (std::int64_t p = first; p < end; ++p) {
      each_window(w, [&](std::int64_t at, const PoolSpan& d, const PoolSpan& h, const PoolSpan& c) {
        max_window(w, x + p * in, d, h, c, y + p * out + at, index ? index + p * out + at : nullptr);
      });
    }
  });
}

namespace {

template <class F>
void each_position(const PositionShape& s, std::int64_t plane, const std::int32_t* index, const F& f) {
  for (std::int64_t i = 0; i < s.positions; ++i) {
    const std::int64_t at = index[plane * s.positions + i];
    if (at < 0 || at >= s.image) [[unlikely]] {
      fail("[max_pool] expected positions in [0, {}), got {} at {} of plane {}", s.image, at, i, plane);
    }
    f(plane * s.positions + i, plane * s.image + at);
  }
}

}  // namespace

template <class T>
void max_pool_scatter(const PositionShape& s, const T* dy, const std::int32_t* index, T* dx, int threads) {
  share_planes(s.planes, s.image, threads, [&](std::int64_t first, std::int64_t end, int) {
    for (std::int64_t p = first; p < end; ++p) {
      if constexpr (std::is_same_v<T, float>) {
        if (s.row > 0 &&
            scatter_two(dy + p * s.positions, index + p * s.positions, s.positions / s.row, s.row, dx + p * s.image))
          continue;
      }
      std::fill_n(dx + p * s.image, s.image, T{0});
      each_position(s, p, index, [&](std::int64_t from, std::int64_t to) { dx[to] += dy[from]; });
    }
  });
}

template <class T>
void max_pool_gather(const PositionShape& s, const T* x, const std::int32_t* index, T* y, int threads) {
  share_planes(s.planes, s.positions, threads, [&](std::int64_t first, std::int64_t end, int) {
    for (std::int64_t p = first; p < end; ++p)
      each_position(s, p, index, [&](std::int64_t to, std::int64_t from) { y[to] = x[from]; });
  });
}

template <class T>
void avg_pool(const PoolWindows& w, const T* x, T* y, int threads) {
  const std::int64_t in = w.in_volume(), out = w.out_volume();
  if (w.planes == 0) return;
  if (w.whole()) {
    const double count = w.divisor > 0 ? w.divisor : w.spans[0][0].count * w.spans[1][0].count * w.spans[2][0].count;
    constexpr std::int64_t kShort = 1024;  // longer sums use double
    if constexpr (std::is_same_v<T, float>) {
      if (in <= kShort) {
        return share_planes(w.planes, in, threads, [&](std::int64_t first, std::int64_t end, int) {
          avg_pool_whole(x + first * in, y + first, end - first, in, 1 / count);
        });
      }
    }
    return reduce_sum(x, y, {w.planes, in, 1}, 1 / count);
  }
  share_planes(w.planes, in, threads, [&](std::int64_t first, std::int64_t end, int) {
    if constexpr (std::is_same_v<T, float>) {
      if (w.inner_end > w.inner_begin) return avg_pool_planes(w, x, y, first, end);
    }
    for (std::int64_t p = first; p < end; ++p) {
      each_window(w, [&](std::int64_t at, const PoolSpan& d, const PoolSpan& h, const PoolSpan& c) {
        y[p * out + at] = mean_window(w, x + p * in, d, h, c);
      });
    }
  });
}

namespace {

double share_of(const PoolWindows& w, const PoolSpan& d, const PoolSpan& h) {
  return w.divisor > 0 ? 1 / w.divisor : 1 / (d.count * h.count);
}

// Contribution of one row of windows to the columns of each image row it covers.
template <class T>
void spread_row(const PoolWindows& w, const T* dy, double share, T* row) {
  std::fill_n(row, w.in[2], T{0});
  for (std::int64_t c = 0; c < w.out[2]; ++c) {
    const PoolSpan& span = w.spans[2][static_cast<std::size_t>(c)];
    const T value = static_cast<T>(static_cast<double>(dy[c]) * (w.divisor > 0 ? share : share / span.count));
    for (std::int64_t at = span.begin; at < span.end; ++at) row[at] += value;
  }
}

template <class T>
void spread_plane(const PoolWindows& w, bool tiles, const T* dy, T* dx, T* row) {
  if (!tiles) std::fill_n(dx, w.in_volume(), T{0});
  for (const PoolSpan& d : w.spans[0]) {
    for (const PoolSpan& h : w.spans[1]) {
      spread_row(w, dy, share_of(w, d, h), row);
      dy += w.out[2];
      for (std::int64_t i = d.begin; i < d.end; ++i) {
        for (std::int64_t j = h.begin; j < h.end; ++j) {
          T* to = dx + (i * w.in[1] + j) * w.in[2];
          if (tiles) {
            std::copy_n(row, w.in[2], to);
          } else {
            for (std::int64_t c = 0; c < w.in[2]; ++c) to[c] += row[c];
          }
        }
      }
    }
  }
}

}  // namespace

template <class T>
void avg_pool_backward(const PoolWindows& w, const T* dy, T* dx, T* rows, int threads) {
  if (w.planes == 0) return;
  const std::int64_t in = w.in_volume(), out = w.out_volume();
  const bool tiles = w.tiles(), whole = w.whole();
  share_planes(w.planes, in, threads, [&](std::int64_t first, std::int64_t end, int piece) {
    for (std::int64_t p = first; p < end; ++p) {
      if (whole) {
        const double share = share_of(w, w.spans[0][0], w.spans[1][0]) / (w.divisor > 0 ? 1 : w.spans[2][0].count);
        std::fill_n(dx + p * in, in, static_cast<T>(static_cast<double>(dy[p]) * share));
      } else {
        spread_plane(w, tiles, dy + p * out, dx + p * in, rows + piece * w.in[2]);
      }
    }
  });
}

namespace {

template <class T, class Power>
double power_sum(const PoolWindows& w, const T* plane, const PoolSpan& d, const PoolSpan& h, const PoolSpan& c,
                 const Power& power) {
  double sum = 0;
  for (std::int64_t i = d.begin; i < d.end; ++i) {
    for (std::int64_t j = h.begin; j < h.end; ++j) {
      const T* row = plane + (i * w.in[1] + j) * w.in[2];
      for (std::int64_t at = c.begin; at < c.end; ++at) sum += power(static_cast<double>(row[at]));
    }
  }
  return sum;
}

template <class T, class Power, class Root>
void lp_planes(const PoolWindows& w, const T* x, T* y, int threads, const Power& power, const Root& root) {
  const std::int64_t in = w.in_volume(), out = w.out_volume();
  share_planes(w.planes, in, threads, [&](std::int64_t first, std::int64_t end, int) {
    for (std::int64_t p = first; p < end; ++p) {
      each_window(w, [&](std::int64_t at, const PoolSpan& d, const PoolSpan& h, const PoolSpan& c) {
        y[p * out + at] = static_cast<T>(root(power_sum(w, x + p * in, d, h, c, power)));
      });
    }
  });
}

}  // namespace

template <class T>
void lp_pool(const PoolWindows& w, double p, const T* x, T* y, int threads) {
  if (p == 2) {
    return lp_planes(
        w, x, y, threads, [](double v) { return v * v; }, [](double s) { return std::sqrt(s); });
  }
  lp_planes(
      w, x, y, threads, [p](double v) { return std::pow(std::abs(v), p); },
      [p](double s) { return std::pow(s, 1 / p); });
}

template void max_pool(const PoolWindows&, const float*, float*, std::int32_t*, int);
template void max_pool(const PoolWindows&, const double*, double*, std::int32_t*, int);
template void max_pool_scatter(const PositionShape&, const float*, const std::int32_t*, float*, int);
template void max_pool_scatter(const PositionShape&, const double*, const std::int32_t*, double*, int);
template void max_pool_gather(const PositionShape&, const float*, const std::int32_t*, float*, int);
template void max_pool_gather(const PositionShape&, const double*, const std::int32_t*, double*, int);
template void avg_pool(const PoolWindows&, const float*, float*, int);
template void avg_pool(const PoolWindows&, const double*, double*, int);
template void avg_pool_backward(const PoolWindows&, const float*, float*, float*, int);
template void avg_pool_backward(const PoolWindows&, const double*, double*, double*, int);
template void lp_pool(const PoolWindows&, double, const float*, float*, int);
template void lp_pool(const PoolWindows&, double, const double*, double*, int);

}  // namespace starling::kernels
