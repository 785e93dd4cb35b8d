#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace starling {

using Digest256 = std::array<std::uint8_t, 32>;

// SHA-256 (FIPS 180-4) and HMAC over it (RFC 2104): proof that two sides know the same secret.
Digest256 sha256(std::string_view bytes);
Digest256 hmac_sha256(std::string_view key, std::string_view message);

// Comparison whose duration depends on the lengths only, so that timing does not reveal where two texts differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

inline std::string_view bytes_of(const Digest256& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace starling
