#include "starling/base/hash/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "starling/base/bytes.h"

namespace starling {
namespace {

// CRC by its definition, bit by bit.
std::uint32_t by_bits(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0U;
  for (auto byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0);
  }
  return ~crc;
}

TEST(Crc32c, OfTheUsualTestText) {
  const std::string text = "123456789";
  EXPECT_EQ(crc32c(as_bytes(text)), 0xE3069283U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32c, IsTheDefinitionForEveryLengthAndPlace) {
  std::vector<std::byte> bytes(100);
  std::uint32_t state = 1;
  for (auto& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t length = 0; begin + length <= bytes.size(); ++length) {
      const auto part = std::span<const std::byte>(bytes).subspan(begin, length);
      ASSERT_EQ(crc32c(part), by_bits(part)) << begin << " " << length;
    }
  }
}

}  // namespace
}  // namespace starling
