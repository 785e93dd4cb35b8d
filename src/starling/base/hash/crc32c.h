#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace starling {

// CRC-32C (Castagnoli polynomial), the checksum of record files.
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace starling
