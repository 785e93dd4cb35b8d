#include "starling/ops/def/sharding/halo.h"

#include <algorithm>

namespace starling::op {

Piece rows_stored(const HaloAttrs& a, std::int64_t rank) {
  return piece_of(a.size, static_cast<int>(rank), static_cast<int>(a.ranks));
}

Piece rows_seen(const HaloAttrs& a, std::int64_t rank) {
  const Piece windows = piece_of(a.windows, static_cast<int>(rank), static_cast<int>(a.ranks));
  if (windows.size == 0) return {};
  return {windows.begin * a.stride - a.before, (windows.size - 1) * a.stride + a.extent};
}

Piece rows_shared(const HaloAttrs& a, std::int64_t owner, std::int64_t reader) {
  const Piece stored = rows_stored(a, owner), seen = rows_seen(a, reader);
  const std::int64_t begin = std::max(stored.begin, seen.begin);
  const std::int64_t end = std::min(stored.begin + stored.size, seen.begin + seen.size);
  return {begin, std::max<std::int64_t>(end - begin, 0)};
}

std::int64_t rows_lent(const HaloAttrs& a, std::int64_t rank) {
  std::int64_t rows = 0;
  for (std::int64_t peer = 0; peer < a.ranks; ++peer) rows += peer == rank ? 0 : rows_shared(a, rank, peer).size;
  return rows;
}

std::int64_t rows_borrowed(const HaloAttrs& a, std::int64_t rank) {
  std::int64_t rows = 0;
  for (std::int64_t peer = 0; peer < a.ranks; ++peer) rows += peer == rank ? 0 : rows_shared(a, peer, rank).size;
  return rows;
}

}  // namespace starling::op
