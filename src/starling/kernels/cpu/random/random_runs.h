#pragma once

#include "starling/base/philox.h"
#include "starling/tensor/shape.h"

namespace starling::kernels {

// Local piece of a global tensor as contiguous runs: trailing dimensions form one run while the piece spans them fully.
struct RandomRuns {
  std::int64_t length = 1;
  Shape outer{};           // counts of runs
  Shape strides{};         // strides of the global tensor over `outer`
  std::int64_t first = 0;  // global index of the piece's first element

  RandomRuns(const Shape& own, const Shape& global, const Shape& offset) {
    const Shape& whole = global.empty() ? own : global;
    const Shape steps = contiguous_strides(whole);
    for (int i = 0; i < offset.rank(); ++i) first += offset[i] * steps[i];
    int split = own.rank();
    while (split > 0) {
      length *= own[--split];
      if (own[split] != whole[split]) break;
    }
    for (int i = 0; i < split; ++i) {
      outer.push_back(own[i]);
      strides.push_back(steps[i]);
    }
  }

  // Calls f(offset in the piece, global index) for every run.
  template <class F>
  void each(F&& f) const {
    const std::int64_t count = outer.numel();
    if (length == 0) return;
    for (std::int64_t run = 0; run < count; ++run) {
      std::int64_t rest = run, at = first;
      for (int d = outer.rank() - 1; d >= 0; --d) {
        at += rest % outer[d] * strides[d];
        rest /= outer[d];
      }
      f(run * length, at);
    }
  }
};

inline PhiloxKey key_of(const void* key, std::int64_t site) {
  const auto* words = static_cast<const std::int64_t*>(key);
  return {static_cast<std::uint64_t>(words[0]), static_cast<std::uint64_t>(words[1]), static_cast<std::uint64_t>(site)};
}

}  // namespace starling::kernels
