#pragma once

#include <array>
#include <cstring>

#include "starling/kernels/kernel.h"

namespace starling::kernels::reference {

using Index = std::array<std::int64_t, kMaxRank>;

// Writes every element of a dense tensor of this shape: source(index) is the element of `in` to copy, or negative for
// `fill`. Elements are copied as bytes, whatever their dtype.
template <class F>
void move_elements(const Shape& shape, std::size_t element, const void* in, const void* fill, void* out, F source) {
  Index index{};
  const std::int64_t n = shape.numel();
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t from = source(index);
    const void* value = from < 0 ? fill : static_cast<const std::byte*>(in) + static_cast<std::size_t>(from) * element;
    std::memmove(static_cast<std::byte*>(out) + static_cast<std::size_t>(i) * element, value, element);
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (++index[static_cast<std::size_t>(d)] < shape[d]) break;
      index[static_cast<std::size_t>(d)] = 0;
    }
  }
}

// Constant in the memory of any dtype.
struct Fill {
  alignas(8) std::array<std::byte, 8> bytes{};
  const void* data() const { return bytes.data(); }
};

}  // namespace starling::kernels::reference
