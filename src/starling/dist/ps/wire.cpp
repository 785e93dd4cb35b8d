#include "starling/dist/ps/wire.h"

#include <fmt/format.h>

#include "starling/base/hash/sha256.h"

namespace starling::dist::ps {

std::string wire_proof(const std::string& secret, std::uint32_t worker) {
  if (secret.empty()) return "";
  return std::string(bytes_of(hmac_sha256(secret, fmt::format("starling ps worker {}", worker))));
}

}  // namespace starling::dist::ps
