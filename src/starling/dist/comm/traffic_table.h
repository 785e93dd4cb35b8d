#pragma once

#include <atomic>
#include <cstdint>

#include "starling/dist/comm/journal.h"

namespace starling::dist {

// Traffic on behalf of one rank: bytes of its memory that others have read, bytes of theirs that it has taken, pieces
// that it has handed over whole, and phases of operations in which it handed over or took something.
struct Moved {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> received{0};
  std::atomic<std::uint64_t> messages{0};
  std::atomic<std::uint64_t> steps{0};
};

// Traffic between the ranks of a group whose memory is common, counted by the loops that copy and reduce. Whichever
// rank moves something adds it to a row of its own, on behalf of the rank they come from and the rank they are for, so
// that no two ranks write to one cache line. A view of memory that holds entries(world) zeros at first.
class TrafficTable {
 public:
  static std::size_t entries(int world) {
    return static_cast<std::size_t>(world) * static_cast<std::size_t>(world) * kCommOpCount;
  }

  TrafficTable(Moved* first, int world) : first_(first), world_(world) {}

  int world() const { return world_; }
  void add(int mover, CommOp op, int rank, const Traffic& moved) const {
    Moved& entry = at(mover, op, rank);
    entry.sent.fetch_add(moved.bytes_sent, std::memory_order_relaxed);
    entry.received.fetch_add(moved.bytes_received, std::memory_order_relaxed);
    entry.messages.fetch_add(moved.messages, std::memory_order_relaxed);
    entry.steps.fetch_add(moved.steps, std::memory_order_relaxed);
  }
  // A message is a send for one of the two and a recv for the other; ended: these are its last bytes.
  void add_message(int mover, int from, int to, std::uint64_t bytes, bool ended) const {
    if (from == to) return;
    const std::uint64_t one = ended ? 1 : 0;
    add(mover, CommOp::send, from, {.bytes_sent = bytes, .steps = one, .messages = one});
    add(mover, CommOp::recv, to, {.bytes_received = bytes, .steps = one});
  }

  Traffic of(CommOp op, int rank) const {
    Traffic sum;
    for (int mover = 0; mover < world_; ++mover) {
      const Moved& entry = at(mover, op, rank);
      sum.bytes_sent += entry.sent.load(std::memory_order_relaxed);
      sum.bytes_received += entry.received.load(std::memory_order_relaxed);
      sum.messages += entry.messages.load(std::memory_order_relaxed);
      sum.steps += entry.steps.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  Moved& at(int mover, CommOp op, int rank) const {
    return first_[(mover * kCommOpCount + static_cast<int>(op)) * world_ + rank];
  }

  Moved* first_;
  int world_;
};

// Phases of one operation in which a rank has handed over or taken something: a bit each. One entry per rank, zero when
// the operation begins.
using PhaseBits = std::atomic<std::uint32_t>;

// Traffic of one piece of work, added to the table when the tally ends. One at a time per thread.
class PieceTally {
 public:
  PieceTally(const TrafficTable& table, int mover, CommOp op, PhaseBits* phases);
  ~PieceTally();
  PieceTally(const PieceTally&) = delete;
  PieceTally& operator=(const PieceTally&) = delete;

  // Bytes on their way from one rank to another. ended: they are the last of what goes between the two in this phase,
  // which then is a message. What a rank reads of its own memory is no traffic.
  void moved(int from, int to, std::int64_t bytes, bool ended, int phase = 0) {
    if (from == to || bytes == 0) return;
    sums_[from].bytes_sent += static_cast<std::uint64_t>(bytes);
    sums_[to].bytes_received += static_cast<std::uint64_t>(bytes);
    sums_[from].messages += ended ? 1 : 0;
    sums_[from].phases |= 1u << phase;
    sums_[to].phases |= 1u << phase;
  }

  struct Sum {
    std::uint64_t bytes_sent = 0, bytes_received = 0, messages = 0;
    std::uint32_t phases = 0;
  };

 private:
  const TrafficTable table_;
  const int mover_;
  const CommOp op_;
  PhaseBits* const phases_;
  Sum* sums_;  // by rank
};

}  // namespace starling::dist
