#pragma once

#include <cstdint>

namespace starling::kernels {

// target[i * target_stride + j] = source[j * source_stride + i] for i < rows, j < cols; strides in elements of 1, 2, 4
// or 8 bytes. One thread, in square blocks whose lines stay in L1.
void transpose_strided(const void* source, std::int64_t source_stride, void* target, std::int64_t target_stride,
                       std::int64_t rows, std::int64_t cols, int element_bytes);

}  // namespace starling::kernels
