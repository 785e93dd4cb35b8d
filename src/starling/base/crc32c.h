#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace starling {

// The cyclic redundancy check with Castagnoli's polynomial, as record files use it.
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace starling
