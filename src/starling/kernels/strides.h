#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Strides of an operand over the elements of a broadcast shape: 0 along broadcast dimensions.
Shape broadcast_strides(const Shape& shape, const Shape& strides, const Shape& out);

// Row-major iteration over a shape for several operands with their own strides (of the shape's rank). Calls f(offsets)
// for every element, offsets[k] being operand k's offset.
template <std::size_t N, class F>
void for_each_offset(const Shape& shape, const std::array<Shape, N>& strides, F&& f) {
  if (shape.numel() == 0) return;
  std::array<std::int64_t, kMaxRank> index{};
  std::array<std::int64_t, N> at{};
  while (true) {
    f(at);
    int d = shape.rank() - 1;
    for (; d >= 0; --d) {
      const auto axis = static_cast<std::size_t>(d);
      for (std::size_t k = 0; k < N; ++k) at[k] += strides[k][d];
      if (++index[axis] < shape[d]) break;
      for (std::size_t k = 0; k < N; ++k) at[k] -= strides[k][d] * shape[d];
      index[axis] = 0;
    }
    if (d < 0) return;
  }
}

// Shape with several operands' strides, collapsed to the fewest loops: dimensions of size 1 are dropped, and neighbours
// that all operands traverse as one dimension are joined.
struct Loops {
  static constexpr int kOperands = 4;
  Shape shape{};
  std::array<Shape, kOperands> strides{};
  int operands = 0;
};
Loops collapse(const Shape& shape, std::span<const Shape> strides);

}  // namespace starling::kernels
