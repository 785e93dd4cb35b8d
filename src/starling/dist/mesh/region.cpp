#include "starling/dist/mesh/region.h"

#include <algorithm>

#include "starling/ops/def/sharding/resplit.h"

namespace starling::dist {
namespace {

using op::length;

// Appends the elements [begin, begin + size) of what the intervals hold, counted without their gaps.
void append(const std::vector<Piece>& intervals, Piece wanted, std::vector<Piece>& out) {
  std::int64_t at = 0;
  for (const Piece& one : intervals) {
    const std::int64_t first = std::max(at, wanted.begin), last = std::min(at + one.size, wanted.begin + wanted.size);
    if (first < last) {
      const Piece taken{one.begin + first - at, last - first};
      if (!out.empty() && out.back().begin + out.back().size == taken.begin)
        out.back().size += taken.size;
      else
        out.push_back(taken);
    }
    at += one.size;
  }
}

std::int64_t elements_after(const Shape& shape, int dim) {
  std::int64_t product = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) product *= shape[d];
  return product;
}

}  // namespace

Region::Region(const Shape& whole) : whole_(whole) {
  for (int d = 0; d < whole.rank(); ++d) dims_.push_back({Piece{0, whole[d]}});
}

void Region::cut(int dim, std::int64_t blocks, int rank, int ranks) {
  Intervals& intervals = dims_[static_cast<std::size_t>(dim)];
  const std::int64_t block = length(intervals) / blocks;
  const Piece own = piece_of(block, rank, ranks);
  Intervals kept;
  for (std::int64_t b = 0; b < blocks; ++b) append(intervals, {b * block + own.begin, own.size}, kept);
  intervals = std::move(kept);
}

Shape Region::shape() const {
  Shape shape = whole_;
  for (int d = 0; d < shape.rank(); ++d) shape[d] = length(dims_[static_cast<std::size_t>(d)]);
  return shape;
}

bool Region::is_whole_after(int dim) const {
  for (int d = dim + 1; d < whole_.rank(); ++d) {
    if (length(dims_[static_cast<std::size_t>(d)]) != whole_[d]) return false;
  }
  return true;
}

void Region::walk(int dim, std::int64_t whole, std::int64_t part, const Intervals& intervals,
                  FunctionRef<void(const Run&)> visit) const {
  const std::int64_t step = elements_after(whole_, dim), own_step = elements_after(shape(), dim);
  if (own_step == 0) return;
  std::int64_t at = 0;
  for (const Piece& one : intervals) {
    if (is_whole_after(dim)) {
      if (one.size > 0) visit({whole + one.begin * step, part + at * step, one.size * step});
      at += one.size;
      continue;
    }
    for (std::int64_t i = 0; i < one.size; ++i, ++at)
      walk(dim + 1, whole + (one.begin + i) * step, part + at * own_step, dims_[static_cast<std::size_t>(dim) + 1],
           visit);
  }
}

void Region::each(FunctionRef<void(const Run&)> visit) const {
  if (whole_.rank() == 0) return visit({0, 0, 1});
  walk(0, 0, 0, dims_[0], visit);
}

void Region::each(std::int64_t first, std::int64_t last, FunctionRef<void(const Run&)> visit) const {
  std::int64_t before = 0;
  const Intervals kept = within(first, last, before);
  walk(0, 0, before * elements_after(shape(), 0), kept, visit);
}

Region::Intervals Region::within(std::int64_t first, std::int64_t last, std::int64_t& before) const {
  Intervals kept;
  before = 0;
  for (const Piece& one : dims_[0]) {
    const std::int64_t begin = std::max(first, one.begin), end = std::min(last, one.begin + one.size);
    if (begin < end) kept.push_back({begin, end - begin});
    before += std::clamp(first - one.begin, std::int64_t{0}, one.size);
  }
  return kept;
}

Piece Region::rows(std::int64_t first, std::int64_t last) const {
  std::int64_t before = 0;
  const std::int64_t size = length(within(first, last, before));
  return {before, size};
}

}  // namespace starling::dist
