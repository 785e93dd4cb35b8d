#include "starling/ops/def/sharding/sharding.h"

#include <fmt/core.h>

namespace starling {

std::string to_string(Layout layout) {
  switch (layout.kind) {
    case Layout::Kind::replicate: return "R";
    case Layout::Kind::split:
      return fmt::format("S{}{}{}", static_cast<int>(layout.dim),
                         layout.blocks > 1 ? fmt::format("*{}", static_cast<int>(layout.blocks)) : "",
                         layout.gathered ? "+" : "");
    case Layout::Kind::partial: return fmt::format("P({})", name(layout.reduce));
  }
  return "?";
}

Piece piece_of(std::int64_t size, int rank, int world) {
  const auto begin = size * rank / world;
  return {begin, size * (rank + 1) / world - begin};
}

std::int64_t size_in_blocks(std::int64_t size, std::int64_t blocks, int rank, int world) {
  return blocks * piece_of(size / blocks, rank, world).size;
}

}  // namespace starling
