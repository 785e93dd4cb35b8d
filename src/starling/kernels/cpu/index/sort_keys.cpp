#include "starling/kernels/cpu/index/sort_keys.h"

#include <algorithm>
#include <utility>

namespace starling::kernels {

// Three passes of 11 bits over the 32 bits of the key, least significant first; a pass whose digit is the same for all
// is skipped.
void radix_sort(ShortEntry* entries, ShortEntry* spare, std::int64_t n) {
  constexpr int kDigits = 3, kBits = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kBits;
  std::array<std::array<std::uint32_t, kBuckets>, kDigits> counts{};
  const auto digit = [](ShortEntry entry, int d) {
    return static_cast<std::size_t>(entry.bits >> (32 + d * kBits)) & (kBuckets - 1);
  };
  for (std::int64_t i = 0; i < n; ++i) {
    for (int d = 0; d < kDigits; ++d) ++counts[static_cast<std::size_t>(d)][digit(entries[i], d)];
  }
  ShortEntry *from = entries, *to = spare;
  for (int d = 0; d < kDigits; ++d) {
    auto& count = counts[static_cast<std::size_t>(d)];
    if (count[digit(from[0], d)] == static_cast<std::uint32_t>(n)) continue;
    std::uint32_t at = 0;
    for (auto& c : count) at += std::exchange(c, at);
    for (std::int64_t i = 0; i < n; ++i) to[count[digit(from[i], d)]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) std::copy_n(from, n, entries);
}

}  // namespace starling::kernels
