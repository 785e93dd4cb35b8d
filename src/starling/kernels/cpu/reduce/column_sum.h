#pragma once

#include <cstdint>

namespace starling::kernels {

// sum[cols] (+)= the sum over the rows of x [rows, cols] with rows ld apart (the bias gradient of a linear layer). Rows
// are added in order, so the result does not depend on the number of threads.
void column_sum(const float* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, float* sum, bool accumulate,
                int threads);

// sum[rows] (+)= the sum of each row of x (the bias gradient of a convolution, one image at a time). One thread.
void row_sum(const float* x, std::int64_t rows, std::int64_t cols, std::int64_t ld, float* sum, bool accumulate);

}  // namespace starling::kernels
