#pragma once

#include <cstdint>

#include "starling/base/half.h"

namespace starling {

// float to half and back with the hardware's conversion where there is one; the bits of Half::from_float and to_float
// (NaN stays NaN). One thread.
void cast_half(const float* from, Half* to, std::int64_t n);
void cast_half(const Half* from, float* to, std::int64_t n);

}  // namespace starling
