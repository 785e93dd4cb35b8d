#pragma once

#include <cstdint>

#include "starling/tensor/dispatch.h"

namespace starling::kernels {

// Converts n elements between any two dtypes (bool as C++ bool: bytes of 0 or 1). To a float type: rounds to nearest
// even, overflow becomes infinity. Float to integer: truncates towards zero, saturating, NaN to 0. Integer to narrower
// integer: wraps. To bool: true if not zero. Arrays must not overlap. Uses the threads of this region.
void cast_array(DType from_type, const void* from, DType to_type, void* to, std::int64_t n);

template <class From, class To>
void cast_array(const From* from, To* to, std::int64_t n) {
  cast_array(dtype_of<From>(), from, dtype_of<To>(), to, n);
}

}  // namespace starling::kernels
