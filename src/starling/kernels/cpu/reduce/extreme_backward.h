#pragma once

#include "starling/kernels/cpu/reduce/reduce_passes.h"

namespace starling::kernels {

// Gradient of max and min: dx = dy at the first x (in row-major order) equal to y, else 0; dense arrays. `given` has
// one byte per result.
template <class T>
struct ExtremeBackward {
  const T* dy;
  const T* x;
  const T* y;
  T* dx;
  std::uint8_t* given;
  bool largest;
};
template <class T>
void extreme_backward(const ExtremeBackward<T>& args, const ReduceGroups& groups);

}  // namespace starling::kernels
