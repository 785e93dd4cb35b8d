#include "starling/kernels/cpu/simd/cast.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/cast_half.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 16384;

template <class T>
constexpr bool kIs16Bit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Double to float, rounded to odd: rounding the result to 16 bits equals rounding the double directly.
float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x)) return nearest;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(x)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <class To, class From>
To saturate(From x) {
  // Bounds are powers of two or exact as From, so that comparisons are right.
  constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
  constexpr To kMiddle = std::numeric_limits<To>::max() / 2 + 1;
  constexpr From kEnd = static_cast<From>(kMiddle) * 2;
  if (x >= kLow && x < kEnd) return static_cast<To>(x);
  if (x != x) return 0;
  if constexpr (std::is_unsigned_v<To>) {
    if (x < 0) return 0;  // (-1, 0) truncates to zero too
  }
  return x < 0 ? std::numeric_limits<To>::min() : std::numeric_limits<To>::max();
}

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIs16Bit<From>) {
    return convert<To>(x.to_float());
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (kIs16Bit<To>) {
    if constexpr (sizeof(From) == 8) return To::from_float(round_to_odd(static_cast<double>(x)));
    if constexpr (std::is_integral_v<From> && sizeof(From) == 4)
      return To::from_float(round_to_odd(static_cast<double>(x)));
    return To::from_float(static_cast<float>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return saturate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void cast_piece(const From* from, To* to, std::int64_t n) {
  if constexpr ((std::is_same_v<From, float> && std::is_same_v<To, Half>) ||
                (std::is_same_v<From, Half> && std::is_same_v<To, float>)) {
    cast_half(from, to, n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
  }
}

}  // namespace

void cast_array(DType from_type, const void* from, DType to_type, void* to, std::int64_t n) {
  dispatch(from_type, [&]<class From>() {
    dispatch(to_type, [&]<class To>() {
      parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
        cast_piece(static_cast<const From*>(from) + begin, static_cast<To*>(to) + begin, end - begin);
      });
    });
  });
}

}  // namespace starling::kernels
