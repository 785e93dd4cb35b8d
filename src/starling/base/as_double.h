#pragma once

#include <type_traits>

#include "starling/base/half.h"

namespace starling {

// A number of any dtype as a double.
template <class T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return value.to_float();
  } else {
    return static_cast<double>(value);
  }
}

}  // namespace starling
