#pragma once

#include <cstdint>

#include "starling/base/philox.h"

namespace starling::kernels {

// Random fills: element i of the array is the random number at global index `base + i` of the key, so that any piece of
// a tensor, on any thread, equals that part of the whole. T is float or double; both draw the same 24-bit numbers.
// Never allocates.

// low + (high - low) * u with u in [0, 1), high - low rounded to float. Bit-identical to philox_uniform for low = 0 and
// high = 1, on every instruction set. What rounding would bring to high is the largest number below it.
template <class T>
void fill_uniform(T* out, std::int64_t n, const PhiloxKey& key, std::int64_t base, double low = 0, double high = 1);

// mean + stddev * z, stddev rounded to float; z agrees with philox_normal to a few float ulps of its radius. The last
// bits may differ between instruction sets.
template <class T>
void fill_normal(T* out, std::int64_t n, const PhiloxKey& key, std::int64_t base, double mean = 0, double stddev = 1);

// y = x / keep where the uniform number is below keep, else 0; the backward pass is the same call on dy. y may be x.
// Throws unless keep is in [0, 1]; keep = 0 gives zeros.
template <class T>
void dropout(const T* x, T* y, std::int64_t n, const PhiloxKey& key, std::int64_t base, double keep);

}  // namespace starling::kernels
