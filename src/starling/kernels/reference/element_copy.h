#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "starling/kernels/strides.h"

namespace starling::kernels::reference {

// Copy of elements as bytes, whatever their dtype.
struct ElementCopy {
  Shape shape;
  std::array<Shape, 2> strides;  // source, target
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  std::size_t element = 1;

  void run(const void* source, void* target) const {
    const auto* from = static_cast<const std::byte*>(source);
    auto* to = static_cast<std::byte*>(target);
    const auto size = static_cast<std::int64_t>(element);
    for_each_offset(shape, strides, [&](const std::array<std::int64_t, 2>& at) {
      std::memcpy(to + (target_offset + at[1]) * size, from + (source_offset + at[0]) * size, element);
    });
  }
};

}  // namespace starling::kernels::reference
