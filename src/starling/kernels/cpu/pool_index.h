#pragma once

#include "starling/kernels/cpu/pool.h"

namespace starling {

// Max pooling that keeps which element of each window won, as its number in the window (row * kernel_w + column), and
// the ways back from it. Windows of at most 256 elements. Of equals the first counts; a NaN wins over numbers. Threads
// share out planes. T is float or double; 2 x 2 windows of floats with stride 2 go through vectors.
template <class T>
void max_pool2d_choose(const Pool2dShape& shape, const T* x, T* y, std::uint8_t* index, int threads);

// dx = dy at the chosen elements, added where windows overlap, else 0. Throws when an index lies outside its window or
// the image.
template <class T>
void max_pool2d_scatter(const Pool2dShape& shape, const T* dy, const std::uint8_t* index, T* dx, int threads);

// y = the chosen elements of x. Throws as above.
template <class T>
void max_pool2d_gather(const Pool2dShape& shape, const T* x, const std::uint8_t* index, T* y, int threads);

// One plane of 2 x 2 windows with stride 2; rows of x and dx are in_w apart. The scatter writes only where windows lie;
// an index above 3 gives its window zeros and the function returns false.
void max_pool_two_choose(const float* x, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* y,
                         std::uint8_t* index);
bool max_pool_two_scatter(const float* dy, const std::uint8_t* index, std::int64_t in_w, std::int64_t out_h,
                          std::int64_t out_w, float* dx);

}  // namespace starling
