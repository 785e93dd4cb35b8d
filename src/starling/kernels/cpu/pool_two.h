#pragma once

#include <cstdint>

namespace starling {

// One plane [2 * out_h, 2 * out_w] in windows of 2 x 2 with stride 2; the vector path of pool.cpp. Rows of x are in_w
// apart; dx is written only where windows lie.
void max_pool_two(const float* x, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* y);
void max_pool_two_gradient(const float* x, const float* dy, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w,
                           float* dx);
void avg_pool_two(const float* x, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* y);
void avg_pool_two_gradient(const float* dy, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* dx);

}  // namespace starling
