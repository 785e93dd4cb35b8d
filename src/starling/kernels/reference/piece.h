#pragma once

#include "starling/base/philox.h"
#include "starling/kernels/strides.h"
#include "starling/tensor/shape.h"

namespace starling::kernels::reference {

// Global index of each element of a tensor's local piece.
struct Piece {
  Shape shape;
  Shape global_strides;
  std::uint64_t first = 0;

  Piece(const Shape& own, const Shape& global, const Shape& offset)
      : shape(own), global_strides(contiguous_strides(global.empty() ? own : global)) {
    for (int i = 0; i < offset.rank(); ++i) first += static_cast<std::uint64_t>(offset[i] * global_strides[i]);
  }

  // Calls f(index in the piece, global index).
  template <class F>
  void each(F&& f) const {
    const std::array<Shape, 2> strides{contiguous_strides(shape), global_strides};
    for_each_offset(shape, strides, [&](const std::array<std::int64_t, 2>& at) {
      f(at[0], first + static_cast<std::uint64_t>(at[1]));
    });
  }
};

inline PhiloxStream stream_of(const void* key, std::int64_t site) {
  const auto* words = static_cast<const std::int64_t*>(key);
  return PhiloxStream(
      {static_cast<std::uint64_t>(words[0]), static_cast<std::uint64_t>(words[1]), static_cast<std::uint64_t>(site)});
}

}  // namespace starling::kernels::reference
