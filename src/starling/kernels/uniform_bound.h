#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "starling/base/half.h"
#include "starling/tensor/dispatch.h"

namespace starling::kernels {

// Next number of a 16-bit float towards -∞; `value` is one of its own.
template <class H>
double half_below(double value) {
  H half = H::from_float(static_cast<float>(value));
  if (value == 0) return -static_cast<double>(H{1}.to_float());
  half.bits = static_cast<std::uint16_t>(value > 0 ? half.bits - 1 : half.bits + 1);
  return static_cast<double>(half.to_float());
}

// Largest element that uniform numbers of [low, high) may be: below high, which the rounding to a dtype would reach;
// low where the dtype has nothing between the two.
inline double largest_below(DType dtype, double low, double high) {
  return dispatch(dtype, [&]<class T>() -> double {
    if constexpr (std::is_floating_point_v<T>) {
      const T rounded = static_cast<T>(high);
      const T below =
          static_cast<double>(rounded) < high ? rounded : std::nextafter(rounded, -std::numeric_limits<T>::infinity());
      return static_cast<double>(std::max(below, static_cast<T>(low)));
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      const auto as_element = [](double v) {
        return static_cast<double>(T::from_float(static_cast<float>(v)).to_float());
      };
      const double rounded = as_element(high);
      return std::max(rounded < high ? rounded : half_below<T>(rounded), as_element(low));
    } else {
      return high;
    }
  });
}

}  // namespace starling::kernels
