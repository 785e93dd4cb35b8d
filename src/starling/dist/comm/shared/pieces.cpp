#include "starling/dist/comm/shared/pieces.h"

#include <algorithm>

#include "starling/base/bytes.h"
#include "starling/dist/comm/call_checks.h"
#include "starling/dist/comm/reduce.h"

namespace starling::dist {
namespace {

std::size_t bytes_moved(const Call& call, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * size_of(call.dtype);
}

// Prefetches all lines at once: fetching them one after another from another core's cache is slow.
void fetch(const std::byte* from, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at);
}

// Same as copy_bytes, but prefetches, for data that another rank has written.
void take_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  constexpr std::int64_t kBlock = 4096;
  fetch(from, std::min(bytes, kBlock));
  for (std::int64_t at = 0; at < bytes; at += kBlock) {
    fetch(from + at + kBlock, std::min(bytes - at - kBlock, kBlock));
    copy_bytes(to + at, from + at, std::min(bytes - at, kBlock));
  }
}

}  // namespace

std::size_t Pieces::source_bytes(const Call& call, int rank, int world) {
  switch (call.op) {
    case CommOp::all_reduce: return bytes_moved(call, call.count);
    case CommOp::sum_shards: return bytes_moved(call, call.count * call.shards);
    case CommOp::broadcast: return rank == call.peer ? bytes_moved(call, call.count) : 0;
    case CommOp::reduce_scatter:
    case CommOp::all_to_all: return bytes_moved(call, whole_length(call, world));
    case CommOp::scatter: return rank == call.peer ? bytes_moved(call, whole_length(call, world)) : 0;
    case CommOp::all_gather:
    case CommOp::gather: return bytes_moved(call, piece_length(call, rank));
    default: return 0;
  }
}

std::size_t Pieces::target_bytes(const Call& call, int rank, int world) {
  switch (call.op) {
    case CommOp::all_reduce:
    case CommOp::sum_shards:
    case CommOp::broadcast: return bytes_moved(call, call.count);
    case CommOp::reduce_scatter:
    case CommOp::scatter: return bytes_moved(call, piece_length(call, rank));
    case CommOp::all_gather:
    case CommOp::all_to_all: return bytes_moved(call, whole_length(call, world));
    case CommOp::gather: return rank == call.peer ? bytes_moved(call, whole_length(call, world)) : 0;
    default: return 0;
  }
}

Pieces::Pieces(const Call& call, int rank, int world, std::vector<const void*>& operands,
               std::span<const std::uint32_t> shards)
    : call_(call),
      rank_(rank),
      world_(world),
      shards_(shards),
      size_(static_cast<std::int64_t>(size_of(call.dtype))),
      operands_(operands) {}

bool Pieces::personal() const {
  return call_.op == CommOp::reduce_scatter || call_.op == CommOp::all_to_all || call_.op == CommOp::scatter;
}

// Offset of a rank's piece; 0 for ops on one common buffer, which is a single piece.
std::int64_t Pieces::offset(int rank) const {
  return two_phases() || call_.op == CommOp::broadcast ? 0 : piece_offset(call_, rank);
}

std::int64_t Pieces::length(int rank) const {
  return two_phases() || call_.op == CommOp::broadcast ? call_.count : piece_length(call_, rank);
}

std::int64_t Pieces::longest() const {
  std::int64_t most = 0;
  for (int r = 0; r < world_; ++r) most = std::max(most, length(r));
  return most;
}

std::int64_t Pieces::width_within(std::size_t bytes) const {
  std::int64_t rows = personal() ? world_ : 1;
  for (std::uint32_t shards : shards_) rows = std::max<std::int64_t>(rows, shards);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes) / size_ / rows);
}

std::int64_t Pieces::parts() const { return (longest() + width_ - 1) / width_; }

Pieces::Range Pieces::range(std::int64_t part, std::int64_t length) const {
  return {std::min(part * width_, length), std::min((part + 1) * width_, length)};
}

// Shares begin at multiples of 64 elements, so that no two ranks write to one cache line.
Pieces::Range Pieces::share(const Range& whole, int rank) const {
  const std::int64_t step = (whole.count() + world_ * 64 - 1) / (world_ * 64) * 64;
  return {std::min(whole.begin + rank * step, whole.end), std::min(whole.begin + (rank + 1) * step, whole.end)};
}

// True if this part holds the last of the rank's shares that is not empty. All parts but the last are equally long.
bool Pieces::ends_share(std::int64_t part, int rank) const {
  const auto some = [&](std::int64_t p) { return p < parts() && share(range(p, call_.count), rank).count() > 0; };
  return some(part) && !some(part + 1);
}

void Pieces::stage(std::int64_t part, std::byte* image) const {
  const auto* send = static_cast<const std::byte*>(call_.send);
  if (two_phases()) {
    const Range whole = range(part, call_.count), own = share(whole, rank_);
    for (std::int64_t k = 0; k < call_.shards; ++k) {
      const std::byte* row = send + k * call_.count * size_;
      std::byte* to = image + k * width_ * size_;
      copy_bytes(to, row + whole.begin * size_, (own.begin - whole.begin) * size_);
      copy_bytes(to + (own.end - whole.begin) * size_, row + own.end * size_, (whole.end - own.end) * size_);
    }
    return;
  }
  if ((call_.op == CommOp::broadcast || call_.op == CommOp::scatter) && rank_ != call_.peer) return;
  if (!personal()) {
    const Range r = range(part, length(rank_));
    return copy_bytes(image, send + r.begin * size_, r.count() * size_);
  }
  for (int to = 0; to < world_; ++to) {
    const Range r = range(part, length(to));
    if (to != rank_) {
      copy_bytes(image + to * width_ * size_, send + (offset(to) + r.begin) * size_, r.count() * size_);
    }
  }
}

// Beginning of this part of the data that `rank` sends to `to`.
const std::byte* Pieces::from(Sources sources, int rank, std::int64_t part, int to) const {
  const Source source = rank == rank_ ? Source{static_cast<const std::byte*>(call_.send), false}
                                      : sources[static_cast<std::size_t>(rank)];
  const std::int64_t piece = personal() ? to : 0;
  if (source.image) return source.data + piece * width_ * size_;
  return source.data + ((personal() ? offset(to) : 0) + part * width_) * size_;
}

// Reduces a range of all ranks' data for this rank into one or two places.
void Pieces::reduce(std::int64_t part, Sources sources, const Range& range, std::byte* first, std::byte* second,
                    bool ended, PieceTally& tally) const {
  operands_.clear();
  const auto rows = [&](int r) { return shards_.empty() ? 1u : shards_[static_cast<std::size_t>(r)]; };
  for (int r = 0; r < world_; ++r) {
    const std::byte* data = from(sources, r, part, rank_);
    const bool image = r != rank_ && sources[static_cast<std::size_t>(r)].image;
    const std::int64_t row = (image ? width_ : call_.count) * size_;
    for (std::uint32_t k = 0; k < rows(r); ++k) operands_.push_back(data + k * row);
  }
  if (operands_.size() == 1) {  // a no-op for one rank in place
    const std::byte* only = static_cast<const std::byte*>(operands_[0]) + (range.begin - part * width_) * size_;
    copy_bytes(first, only, range.count() * size_);
    if (second) copy_bytes(second, only, range.count() * size_);
    return;
  }
  alignas(64) std::byte block[kReduceBlock * 8];
  const auto fetch_from = [&](std::int64_t begin) {
    const std::int64_t n = std::min(kReduceBlock, range.end - begin);
    for (const void* data : operands_) {
      fetch(static_cast<const std::byte*>(data) + (begin - part * width_) * size_, n * size_);
    }
  };
  fetch_from(range.begin);
  for (std::int64_t b = range.begin; b < range.end; b += kReduceBlock) {
    const std::int64_t n = std::min(kReduceBlock, range.end - b);
    fetch_from(b + n);
    reduce_block(call_.dtype, call_.reduce, operands_, b - part * width_, n, block);
    for (int r = 0; r < world_; ++r) tally.moved(r, rank_, n * size_ * rows(r), ended && b + n == range.end);
    copy_bytes(first + (b - range.begin) * size_, block, n * size_);
    if (second) copy_bytes(second + (b - range.begin) * size_, block, n * size_);
  }
}

void Pieces::copy(int source, const Span& to, const std::byte* from, PieceTally& tally) const {
  take_bytes(static_cast<std::byte*>(call_.recv) + to.begin * size_, from, to.count * size_);
  tally.moved(source, rank_, to.count * size_, to.ended, to.phase);
}

void Pieces::take(std::int64_t part, Sources sources, PieceTally& tally) const {
  auto* recv = static_cast<std::byte*>(call_.recv);
  switch (call_.op) {
    case CommOp::all_reduce:
    case CommOp::sum_shards:
    case CommOp::reduce_scatter: {
      const Range r = range(part, length(rank_));
      return reduce(part, sources, r, recv + r.begin * size_, nullptr, r.end == length(rank_), tally);
    }
    case CommOp::broadcast: {
      const Range r = range(part, call_.count);
      return copy(call_.peer, {r.begin, r.count(), r.end == call_.count}, from(sources, call_.peer, part, rank_),
                  tally);
    }
    case CommOp::scatter: {
      const Range r = range(part, length(rank_));
      const Span to{r.begin, r.count(), r.end == length(rank_)};
      return copy(call_.peer, to, from(sources, call_.peer, part, rank_), tally);
    }
    case CommOp::all_gather:
    case CommOp::gather:
    case CommOp::all_to_all: {
      if (call_.op == CommOp::gather && rank_ != call_.peer) return;
      for (int s = 0; s < world_; ++s) {
        const Range r = range(part, length(s));
        copy(s, {offset(s) + r.begin, r.count(), r.end == length(s)}, from(sources, s, part, rank_), tally);
      }
      return;
    }
    default: return;
  }
}

void Pieces::reduce_share(std::int64_t part, Sources sources, std::byte* result, PieceTally& tally) const {
  const Range whole = range(part, call_.count), own = share(whole, rank_);
  auto* recv = static_cast<std::byte*>(call_.recv);
  reduce(part, sources, own, recv + own.begin * size_, result + (own.begin - whole.begin) * size_,
         ends_share(part, rank_), tally);
}

void Pieces::take_shares(std::int64_t part, const std::byte* result, PieceTally& tally) const {
  const Range whole = range(part, call_.count);
  for (int r = 0; r < world_; ++r) {
    const Range one = share(whole, r);
    if (r == rank_) continue;
    copy(r, {one.begin, one.count(), ends_share(part, r), 1}, result + (one.begin - whole.begin) * size_, tally);
  }
}

}  // namespace starling::dist
