#pragma once

#include <concepts>
#include <type_traits>

namespace starling {

// The least multiple of `unit` that is not below x. Without one: of a line of cache, 64 bytes, at which scratch and
// buffers begin.
template <std::integral T>
constexpr T round_up(T x, std::type_identity_t<T> unit = 64) {
  return (x + unit - 1) / unit * unit;
}

}  // namespace starling
