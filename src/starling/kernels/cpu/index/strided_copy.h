#pragma once

#include <cstddef>

#include "starling/kernels/cpu/simd/copy.h"
#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Strided copy between operands, planned ahead of the addresses. Offsets and strides in elements.
struct PlannedCopy {
  Shape shape;
  Shape source_strides;
  Shape target_strides;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  int element = 1;  // bytes

  void run(const void* source, void* target) const {
    copy_strided({{shape.begin(), shape.end()},
                  static_cast<const std::byte*>(source) + source_offset * element,
                  {source_strides.begin(), source_strides.end()},
                  static_cast<std::byte*>(target) + target_offset * element,
                  {target_strides.begin(), target_strides.end()},
                  element});
  }
};

inline int element_bytes(DType dtype) { return static_cast<int>(size_of(dtype)); }

// Multi-threaded memset and memcpy for large sizes. A copy onto itself does nothing.
void parallel_zero(void* data, std::size_t bytes);
void parallel_copy(void* target, const void* source, std::size_t bytes);

}  // namespace starling::kernels
