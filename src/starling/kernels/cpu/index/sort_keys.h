#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "starling/base/half.h"

namespace starling::kernels {

// Unsigned integer with the same order as the values, sorted in their place. -0 and 0 have one key, as do all NaN,
// which come last.
template <class T>
using SortKey = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
SortKey<T> sort_key(T value) {
  using Key = SortKey<T>;
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return sort_key(value.to_float());
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return std::numeric_limits<Key>::max();
    constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
    const Key bits = std::bit_cast<Key>(value == 0 ? T{0} : value);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  } else if constexpr (std::is_signed_v<T> && !std::is_same_v<T, bool>) {
    constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
    return static_cast<Key>(static_cast<std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>>(value)) ^ kSign;
  } else {
    return static_cast<Key>(value);
  }
}

// Sort entry: a key and the index it came from. A short key and its index are packed into one number, so that a
// comparison is one instruction.
struct ShortEntry {
  std::uint64_t bits = 0;
  ShortEntry() = default;
  ShortEntry(std::uint32_t key, std::int64_t place)
      : bits(std::uint64_t{key} << 32 | static_cast<std::uint64_t>(place)) {}
  std::int64_t place() const { return static_cast<std::int64_t>(bits & 0xFFFFFFFFu); }
  friend bool operator<(ShortEntry a, ShortEntry b) { return a.bits < b.bits; }
};
struct LongEntry {
  std::uint64_t key = 0;
  std::int64_t at = 0;
  LongEntry() = default;
  LongEntry(std::uint64_t k, std::int64_t place) : key(k), at(place) {}
  std::int64_t place() const { return at; }
  friend bool operator<(const LongEntry& a, const LongEntry& b) { return a.key != b.key ? a.key < b.key : a.at < b.at; }
};

// Radix sort of n entries by key; `spare` holds as many. Indices must ascend in the input, so that only keys are
// compared.
void radix_sort(ShortEntry* entries, ShortEntry* spare, std::int64_t n);

}  // namespace starling::kernels
