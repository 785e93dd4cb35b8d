#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "starling/base/half.h"
#include "starling/kernels/by_float.h"
#include "starling/kernels/kernel.h"
#include "starling/tensor/dispatch.h"

namespace starling::kernels::reference {

// Element conversion between any dtypes. To a float type: rounds to nearest even. Float to integer: truncates towards
// zero, saturating, NaN to 0. Integer to narrower integer: wraps. To bool: true if not zero.
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class To, class From>
To convert(From from) {
  if constexpr (kIsHalf<From>) {
    return convert<To>(from.to_float());
  } else if constexpr (kIsHalf<To>) {
    return To::from_float(static_cast<float>(from));
  } else if constexpr (std::is_same_v<To, bool>) {
    return from != From{};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (std::isnan(from)) return 0;
    const double value = static_cast<double>(from);
    if (value <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(from);
  }
}

// Element access through V, double or int64: the type that arithmetic uses.
template <class V>
V read(DType dtype, const void* data, std::int64_t at) {
  return dispatch(dtype, [&]<class T>() { return convert<V>(static_cast<const T*>(data)[at]); });
}
template <class V>
void write(DType dtype, void* data, std::int64_t at, V value) {
  dispatch(dtype, [&]<class T>() { static_cast<T*>(data)[at] = convert<T>(value); });
}

using starling::kernels::for_floats;

inline Kernel kernel(Accepts accepts, std::function<std::unique_ptr<Plan>(const PlanRequest&)> plan) {
  return {"reference", accepts, std::move(plan)};
}

}  // namespace starling::kernels::reference
