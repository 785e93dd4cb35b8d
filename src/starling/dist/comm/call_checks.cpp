#include "starling/dist/comm/call_checks.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "starling/base/error.h"

namespace starling::dist {
namespace {

struct Range {
  std::uintptr_t begin;  // addresses as numbers: empty buffers may be null
  std::uintptr_t bytes;
};

Range range(const void* pointer, std::int64_t bytes) {
  return {reinterpret_cast<std::uintptr_t>(pointer), static_cast<std::uintptr_t>(bytes)};
}

bool overlap(Range a, Range b) {
  if (a.bytes == 0 || b.bytes == 0) return false;
  return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

// Buffers must either not overlap, or be exactly the in-place form of the op.
void check_overlap(const Call& call, Range send, Range recv, bool in_place, std::string_view form) {
  if (in_place || !overlap(send, recv)) return;
  fail("[{}] expected send and recv apart{}, got {} bytes at {:#x} and {} bytes at {:#x}", name(call.op), form,
       send.bytes, send.begin, recv.bytes, recv.begin);
}

void check_on_root(const Call& call, const void* buffer, Range range, std::string_view which) {
  if (buffer == nullptr && range.bytes > 0)
    fail("[{}] expected a {} buffer of {} bytes on the root, got null", name(call.op), which, range.bytes);
}

// Ops with a buffer made of one piece for each rank.
bool in_pieces(CommOp op) {
  return op == CommOp::reduce_scatter || op == CommOp::all_gather || op == CommOp::all_to_all || op == CommOp::gather ||
         op == CommOp::scatter;
}

void check_buffers(const Call& call, const CommGroup& group) {
  if (call.op == CommOp::all_reduce && call.send == call.recv) return;  // in place: the common case
  const auto size = static_cast<std::int64_t>(size_of(call.dtype));
  const bool pieces = in_pieces(call.op) && call.op != CommOp::all_to_all;
  const std::int64_t whole = whole_length(call, group.size) * size;
  const std::int64_t piece = pieces ? piece_length(call, group.rank) * size : whole;
  const auto offset = static_cast<std::uintptr_t>(pieces ? piece_offset(call, group.rank) * size : 0);
  const bool gathers = call.op == CommOp::all_gather || call.op == CommOp::gather;
  const Range send = range(call.send, gathers ? piece : whole * call.shards);
  const Range recv = range(call.recv, gathers ? whole : piece);
  switch (call.op) {
    case CommOp::all_reduce: return check_overlap(call, send, recv, send.begin == recv.begin, " or the same");
    case CommOp::sum_shards:
      return check_overlap(call, send, recv, send.begin == recv.begin, " or recv the first shard of send");
    case CommOp::reduce_scatter:
      return check_overlap(call, send, recv, recv.begin == send.begin + offset, " or recv this rank's piece of send");
    case CommOp::all_gather:
      return check_overlap(call, send, recv, send.begin == recv.begin + offset, " or send this rank's piece of recv");
    case CommOp::gather:
      if (call.peer != group.rank) return;
      check_on_root(call, call.recv, recv, "recv");
      return check_overlap(call, send, recv, send.begin == recv.begin + offset, " or send the root's piece of recv");
    case CommOp::scatter:
      if (call.peer != group.rank) return;
      check_on_root(call, call.send, send, "send");
      return check_overlap(call, send, recv, recv.begin == send.begin + offset, " or recv the root's piece of send");
    case CommOp::all_to_all: return check_overlap(call, send, recv, false, "");
    default: return;
  }
}

void check_reduction(const Call& call) {
  const bool sums = call.op == CommOp::sum_shards;
  if (!sums && call.op != CommOp::all_reduce && call.op != CommOp::reduce_scatter) return;
  if (call.reduce == ReduceOp::mean && !is_float(call.dtype))
    fail("[{}] expected a floating-point dtype for mean, got {}: sum and divide as the rounding should be",
         name(call.op), name(call.dtype));
  if (call.dtype == DType::boolean && call.reduce != ReduceOp::max && call.reduce != ReduceOp::min)
    fail("[{}] expected max (or) or min (and) for bool, got {}", name(call.op), name(call.reduce));
}

void check_peer(const Call& call, const CommGroup& group) {
  if (!has_root(call.op) && !is_point_to_point(call.op)) return;
  if (call.peer < 0 || call.peer >= group.size)
    fail("[{}] expected a {} in [0, {}), got {}", name(call.op), has_root(call.op) ? "root" : "peer", group.size,
         call.peer);
  if (!has_root(call.op) && call.peer == group.rank)
    fail("[{}] expected another rank, got this rank {}", name(call.op), call.peer);
}

}  // namespace

std::int64_t piece_offset(const Call& call, int rank) {
  if (call.counts.empty()) return call.count * rank;
  return std::accumulate(call.counts.begin(), call.counts.begin() + rank, std::int64_t{0});
}

std::int64_t piece_length(const Call& call, int rank) {
  return call.counts.empty() ? call.count : call.counts[static_cast<std::size_t>(rank)];
}

std::int64_t whole_length(const Call& call, int world) {
  return in_pieces(call.op) && call.counts.empty() ? call.count * world : call.count;
}

void check_counts(CommOp op, std::span<const std::int64_t> counts, int world) {
  check(counts.size() == static_cast<std::size_t>(world), "[{}] expected {} counts, one a rank, got {}", name(op),
        world, counts.size());
  for (std::int64_t count : counts) {
    check(count >= 0 && count <= std::numeric_limits<std::int64_t>::max() / 8 / world,
          "[{}] expected counts of at least 0 that fit in memory, got {}", name(op), count);
  }
}

void check_call(const Call& call, const CommGroup& group) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 8;
  if (call.shards < 0) fail("[{}] expected at least 0 shards, got {}", name(call.op), call.shards);
  // Fast path: far below the limit, skip the divisions.
  const bool little = call.count >= 0 && call.count <= 1 << 20 && call.shards <= 1 << 20 && group.size <= 1 << 16;
  if (!little) {
    const std::int64_t most = kMost / group.size / std::max<std::int64_t>(call.shards, 1);
    if (call.count < 0 || call.count > most)
      fail("[{}] expected a count in [0, {}], got {}", name(call.op), most, call.count);
  }
  check_peer(call, group);
  check_reduction(call);
  check_buffers(call, group);
}

}  // namespace starling::dist
