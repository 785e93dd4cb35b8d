#pragma once

#include "starling/base/bytes.h"
#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Result i, n elements, to be updated in place; if it has other memory than operand i, the old values are copied there
// first.
template <class T>
T* in_place(const Launch& launch, std::size_t i, std::int64_t n) {
  copy_bytes(launch.out[i], launch.in[i], n * static_cast<std::int64_t>(sizeof(T)));
  return static_cast<T*>(launch.out[i]);
}

}  // namespace starling::kernels
