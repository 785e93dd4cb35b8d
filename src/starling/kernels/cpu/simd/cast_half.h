#pragma once

#include <cstdint>

#include "starling/base/half.h"

namespace starling::kernels {

// Conversion between float and half, by hardware where available; same bits as Half::from_float and to_float (NaN stays
// NaN). One thread.
void cast_half(const float* from, Half* to, std::int64_t n);
void cast_half(const Half* from, float* to, std::int64_t n);

}  // namespace starling::kernels
