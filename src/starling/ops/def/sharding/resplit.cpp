#include "starling/ops/def/sharding/resplit.h"

#include <algorithm>

namespace starling::op {
namespace {

// Piece of a rank in each block of a dimension.
std::vector<Piece> pieces_in_blocks(std::int64_t size, std::int64_t blocks, std::int64_t rank, std::int64_t ranks) {
  std::vector<Piece> pieces;
  const std::int64_t block = size / blocks;
  const Piece own = piece_of(block, static_cast<int>(rank), static_cast<int>(ranks));
  for (std::int64_t b = 0; b < blocks; ++b) pieces.push_back({b * block + own.begin, own.size});
  return pieces;
}

// Intervals that two lists have in common, counted in the elements of the first.
std::vector<Piece> common(const std::vector<Piece>& mine, const std::vector<Piece>& others) {
  std::vector<Piece> out;
  std::int64_t at = 0;
  for (const Piece& own : mine) {
    for (const Piece& other : others) {
      const std::int64_t begin = std::max(own.begin, other.begin),
                         end = std::min(own.begin + own.size, other.begin + other.size);
      if (begin < end) out.push_back({at + begin - own.begin, end - begin});
    }
    at += own.size;
  }
  return out;
}

}  // namespace

ResplitAttrs with_size(ResplitAttrs attrs, const Shape& operand) {
  if (attrs.size < 0) attrs.size = operand[static_cast<int>(attrs.from)] * attrs.ranks;
  return attrs;
}

std::vector<Piece> intervals_sent(const ResplitAttrs& a, const Shape& operand, int peer) {
  const int to = static_cast<int>(a.to);
  if (a.from != a.to) return pieces_in_blocks(operand[to], a.to_blocks, peer, a.ranks);
  return common(pieces_in_blocks(a.size, a.from_blocks, a.rank, a.ranks),
                pieces_in_blocks(a.size, a.to_blocks, peer, a.ranks));
}

std::vector<Piece> intervals_received(const ResplitAttrs& a, const Shape& result, int peer) {
  const int from = static_cast<int>(a.from);
  if (a.from != a.to) return pieces_in_blocks(result[from], a.from_blocks, peer, a.ranks);
  return common(pieces_in_blocks(a.size, a.to_blocks, a.rank, a.ranks),
                pieces_in_blocks(a.size, a.from_blocks, peer, a.ranks));
}

std::int64_t length(const std::vector<Piece>& intervals) {
  std::int64_t sum = 0;
  for (const Piece& one : intervals) sum += one.size;
  return sum;
}

std::int64_t elements_kept(const Shape& whole, Layout from, Layout to, int rank, int ranks) {
  if (whole.numel() == 0) return 0;
  const auto own = [&](Layout layout) { return pieces_in_blocks(whole[layout.dim], layout.blocks, rank, ranks); };
  if (from.dim == to.dim) return whole.numel() / whole[from.dim] * length(common(own(from), own(to)));
  return whole.numel() / whole[from.dim] / whole[to.dim] * length(own(from)) * length(own(to));
}

}  // namespace starling::op
