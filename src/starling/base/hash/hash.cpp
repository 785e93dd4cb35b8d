#include "starling/base/hash/hash.h"

#include <xxhash.h>

#include <new>

#include "starling/base/bytes.h"
#include "starling/base/error.h"

namespace starling {

void Hash128::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Hash128::Hash128() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}
Hash128::~Hash128() = default;
Hash128::Hash128(Hash128&&) noexcept = default;
Hash128& Hash128::operator=(Hash128&&) noexcept = default;

void Hash128::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}
void Hash128::update(std::string_view text) { update(as_bytes(text)); }
void Hash128::update(std::uint64_t number) { update(std::as_bytes(std::span(&number, 1))); }

std::string Hash128::hex() const {
  const auto digest = XXH3_128bits_digest(state_.get());
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

}  // namespace starling
