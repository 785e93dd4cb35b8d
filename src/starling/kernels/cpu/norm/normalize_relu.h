#pragma once

#include "starling/kernels/cpu/norm/normalize.h"

namespace starling::kernels {

// Batch normalisation followed by a relu, on one channel, for float or double. Runs on the calling thread.
template <class T>
struct NormalizeReluFns {
  // y = relu((x - mean) · scale + shift + residual); a null residual counts as 0.
  void (*forward)(const T* x, const T* residual, T* y, const Runs& runs, T mean, T scale, T shift);
  // Σ dy and Σ dy · (x - centre) over elements with y > 0.
  void (*dots)(const T* dy, const T* y, const T* x, const Runs& runs, T centre, double* sum, double* dot);
  // dx = (y > 0 ? dy : 0) · a + (x - mean) · b + c
  void (*backward)(const T* dy, const T* y, const T* x, T* dx, const Runs& runs, T a, T mean, T b, T c);
};

template <class T>
NormalizeReluFns<T> normalize_relu_fns();  // for this machine's instruction set

}  // namespace starling::kernels
