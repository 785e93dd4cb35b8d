#include "starling/base/hash/crc32c.h"

#include <array>
#include <cstddef>

namespace starling {
namespace {

constexpr std::size_t kStep = 8;  // bytes per step

// Table k: effect of a byte on the checksum after k more zero bytes.
constexpr std::array<std::array<std::uint32_t, 256>, kStep> make_tables() {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected
  std::array<std::array<std::uint32_t, 256>, kStep> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = value;
  }
  for (std::size_t k = 1; k < kStep; ++k) {
    for (std::size_t i = 0; i < 256; ++i) {
      tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xFF];
    }
  }
  return tables;
}

constexpr auto kTables = make_tables();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0U;
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  for (; static_cast<std::size_t>(end - at) >= kStep; at += kStep) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < kStep; ++i) {
      const std::uint32_t earlier = i < 4 ? crc >> (8 * i) : 0;
      next ^= kTables[kStep - 1 - i][(static_cast<std::uint32_t>(at[i]) ^ earlier) & 0xFF];
    }
    crc = next;
  }
  for (; at != end; ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*at)) & 0xFF];
  return ~crc;
}

}  // namespace starling
