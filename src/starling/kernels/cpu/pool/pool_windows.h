#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "starling/base/parallel.h"
#include "starling/ops/def/pool_geometry.h"

namespace starling::kernels {

// One axis of a window: elements begin, begin + step, … below end.
struct PoolSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  double count = 1;  // divisor of a mean along this axis
};

// Windows of a pooling over planes [in0, in1, in2] → [out0, out1, out2], axis by axis.
struct PoolWindows {
  std::int64_t planes = 0;
  std::array<std::int64_t, 3> in{1, 1, 1};
  std::array<std::int64_t, 3> out{1, 1, 1};
  std::array<std::int64_t, 3> step{1, 1, 1};
  std::array<std::vector<PoolSpan>, 3> spans;
  double divisor = 0;  // replaces the counts as divisor of means; 0: the counts

  // Columns [inner_begin, inner_end) with complete windows of `kernel` neighbours, `stride` (1 or 2) apart, the first
  // at stride · column - padding: vectorised. Empty for other windows.
  std::int64_t inner_begin = 0;
  std::int64_t inner_end = 0;
  std::int64_t kernel = 0;
  std::int64_t stride = 0;
  std::int64_t padding = 0;

  std::int64_t in_volume() const { return in[0] * in[1] * in[2]; }
  std::int64_t out_volume() const { return out[0] * out[1] * out[2]; }
  bool whole() const;  // a single window over everything
  bool tiles() const;  // windows tile the input without gap or overlap
};

PoolWindows regular_windows(const PoolGeometry& geometry, bool count_include_pad = true);
PoolWindows even_windows(const Shape& x, const Shape& y);

// Calls body(first plane, end plane, piece) on up to `threads` threads; planes of few elements stay together.
template <class Body>
void share_planes(std::int64_t planes, std::int64_t volume, int threads, const Body& body) {
  constexpr std::int64_t kElementsPerThread = 16 * 1024;
  if (planes <= 0) return;
  const std::int64_t worth = planes * std::max<std::int64_t>(volume, 1) / kElementsPerThread;
  const std::int64_t pieces = std::clamp<std::int64_t>(std::min(worth, planes), 1, std::max(threads, 1));
  if (pieces == 1) return body(std::int64_t{0}, planes, 0);
  parallel_run(static_cast<int>(pieces),
               [&](int piece) { body(planes * piece / pieces, planes * (piece + 1) / pieces, piece); });
}

// Calls f(window, span, span, span) for the windows of one plane.
template <class F>
void each_window(const PoolWindows& w, const F& f) {
  std::int64_t at = 0;
  for (const PoolSpan& d : w.spans[0]) {
    for (const PoolSpan& h : w.spans[1]) {
      for (const PoolSpan& c : w.spans[2]) f(at++, d, h, c);
    }
  }
}

}  // namespace starling::kernels
