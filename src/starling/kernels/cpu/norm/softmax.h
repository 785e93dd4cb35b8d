#pragma once

#include <cstdint>

namespace starling::kernels {

// Softmax along the rows of contiguous [rows, cols] arrays of float or double. Threads share the rows; results do not
// depend on their number. An output may be the same array as an input. A row with NaN or +inf, or of -inf alone, gives
// NaN. Probabilities below the smallest normal number are zero. Never allocates.
template <class T>
void softmax(const T* x, T* y, std::int64_t rows, std::int64_t cols);

template <class T>
void log_softmax(const T* x, T* y, std::int64_t rows, std::int64_t cols);

// dx = y * (dy - sum(dy * y)), y being softmax's output.
template <class T>
void softmax_backward(const T* dy, const T* y, T* dx, std::int64_t rows, std::int64_t cols);

// dx = dy - exp(y) * sum(dy), y being log_softmax's output.
template <class T>
void log_softmax_backward(const T* dy, const T* y, T* dx, std::int64_t rows, std::int64_t cols);

}  // namespace starling::kernels
