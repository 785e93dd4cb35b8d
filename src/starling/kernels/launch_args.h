#pragma once

#include <cstddef>

#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Operands and results of a launch as elements of the type that a kernel was planned for.
template <class T>
const T* input(const Launch& launch, std::size_t i = 0) {
  return static_cast<const T*>(launch.in[i]);
}
template <class T>
T* output(const Launch& launch, std::size_t i = 0) {
  return static_cast<T*>(launch.out[i]);
}

}  // namespace starling::kernels
