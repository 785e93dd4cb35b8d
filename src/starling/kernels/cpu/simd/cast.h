#pragma once

#include <cstdint>

#include "starling/base/half.h"

namespace starling {

// Converts n elements between any two of double, float, Half, BFloat16, int64, int32, uint8 and bool (bool as C++ bool:
// bytes of 0 or 1). To a float type: round to nearest even, too large becomes infinite. Float to integer: towards zero,
// saturating, NaN to 0. Integer to narrower integer: wraps. To bool: whether not zero. Arrays must not overlap. Threads
// of this region.
template <class From, class To>
void cast_array(const From* from, To* to, std::int64_t n);

}  // namespace starling
