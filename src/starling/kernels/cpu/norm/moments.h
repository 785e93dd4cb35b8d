#pragma once

#include <cstdint>

namespace starling::kernels {

// Means and sums of squared deviations (m2), in double, of dense arrays of float or double. Threads share the results,
// or a single long one; the split depends on the shape alone. One pass over memory.

// Moments of x [images, channels, length] over images and length; mean and m2 are [channels].
template <class T>
void channel_moments(const T* x, std::int64_t images, std::int64_t channels, std::int64_t length, double* mean,
                     double* m2);

// Moments of x [outer, axis, inner] over the axis; mean and m2 are [outer, inner].
template <class T>
void column_moments(const T* x, std::int64_t outer, std::int64_t axis, std::int64_t inner, double* mean, double* m2);

}  // namespace starling::kernels
