#include "starling/kernels/cpu/pool/pool_windows.h"

namespace starling::kernels {

bool PoolWindows::whole() const {
  for (std::size_t i = 0; i < 3; ++i) {
    if (out[i] != 1 || spans[i].size() != 1 || spans[i][0].begin != 0 || spans[i][0].end != in[i] || step[i] != 1)
      return false;
  }
  return true;
}

bool PoolWindows::tiles() const {
  for (std::size_t i = 0; i < 3; ++i) {
    std::int64_t next = 0;
    for (const PoolSpan& span : spans[i]) {
      if (span.begin != next) return false;
      next = span.end;
    }
    if (next != in[i] || step[i] != 1) return false;
  }
  return true;
}

namespace {

// Finds the columns that vector code may take.
void find_inner(PoolWindows& w, const PoolAxis& axis) {
  const bool fits = axis.dilation == 1 && (axis.stride == 1 || (axis.stride == 2 && axis.kernel >= 2));
  if (!fits) return;
  w.kernel = axis.kernel, w.stride = axis.stride, w.padding = axis.padding;
  w.inner_begin = (axis.padding + axis.stride - 1) / axis.stride;
  const std::int64_t last_start = axis.in - axis.kernel + axis.padding;  // of a window that ends inside the image
  if (last_start < 0) return void(w.inner_begin = 0);
  w.inner_end = std::min(axis.out, last_start / axis.stride + 1);
  if (w.inner_end <= w.inner_begin) w.inner_begin = w.inner_end = 0;
}

}  // namespace

PoolWindows regular_windows(const PoolGeometry& g, bool count_include_pad) {
  PoolWindows w;
  w.planes = g.planes;
  if (g.planes == 0) return w;  // other sizes may then be arbitrarily large
  for (std::size_t i = 0; i < 3; ++i) {
    const PoolAxis& axis = g.axes[i];
    w.in[i] = axis.in, w.out[i] = axis.out, w.step[i] = axis.dilation;
    for (std::int64_t at = 0; at < axis.out; ++at) {
      const std::int64_t begin = axis.start(at) + axis.first_tap(at) * axis.dilation;
      const std::int64_t end = axis.start(at) + (axis.end_tap(at) - 1) * axis.dilation + 1;
      w.spans[i].push_back({begin, end, static_cast<double>(axis.counted(at, count_include_pad))});
    }
  }
  find_inner(w, g.axes[2]);
  return w;
}

PoolWindows even_windows(const Shape& x, const Shape& y) {
  PoolGeometry g{x[0] * x[1], {}, y};
  PoolWindows w;
  w.planes = g.planes;
  if (g.planes == 0) return w;
  for (int i = 2; i < x.rank(); ++i) {
    const auto axis = static_cast<std::size_t>(i) + 3 - static_cast<std::size_t>(x.rank());
    const std::int64_t in = x[i], out = y[i];
    g.axes[axis] = {.in = in, .out = out, .kernel = in / out, .stride = in / out};
    w.in[axis] = in, w.out[axis] = out;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t in = w.in[i], out = w.out[i];
    for (std::int64_t at = 0; at < out; ++at) {
      const std::int64_t begin = at * in / out, end = ((at + 1) * in + out - 1) / out;
      w.spans[i].push_back({begin, end, static_cast<double>(end - begin)});
    }
  }
  if (w.in[2] % w.out[2] == 0) find_inner(w, g.axes[2]);
  return w;
}

}  // namespace starling::kernels
