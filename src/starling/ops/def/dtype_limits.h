#pragma once

#include <cmath>
#include <limits>
#include <utility>

#include "starling/tensor/dispatch.h"

namespace starling {

// Smallest and largest value of an integer dtype, as near as a double comes to them.
inline std::pair<double, double> limits_of(DType dtype) {
  return dispatch(dtype, []<class T>() -> std::pair<double, double> {
    if constexpr (!std::is_integral_v<T>) return {};
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      return {static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max())};
    }
  });
}

// True if an attribute's number is a valid element: any for floats, else whole and within the limits. Integers are
// computed in i64, so 2⁶³ is out of range for all.
inline bool holds(DType dtype, double value) {
  if (is_float(dtype)) return true;
  const auto [least, most] = limits_of(dtype);
  return std::floor(value) == value && value >= least && value <= most && value < 0x1p63;
}

}  // namespace starling
