#pragma once

#include <atomic>
#include <cstdint>

#include "starling/dist/comm/journal.h"

namespace starling::dist {

// Bytes of one rank's memory that others have read, and of others' memory that it has taken.
struct MovedBytes {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> received{0};
};

// Bytes between the ranks of a group whose memory is common, counted by the loops that copy and reduce them. Whichever
// rank moves bytes adds them to a row of its own, on behalf of the rank they come from and the rank they are for, so
// that no two ranks write to one cache line. A view of memory that holds entries(world) zeros at first.
class TrafficTable {
 public:
  static std::size_t entries(int world) {
    return static_cast<std::size_t>(world) * static_cast<std::size_t>(world) * kCommOpCount;
  }

  TrafficTable(MovedBytes* first, int world) : first_(first), world_(world) {}

  int world() const { return world_; }
  void add(int mover, CommOp op, int rank, std::uint64_t sent, std::uint64_t received) const {
    MovedBytes& entry = at(mover, op, rank);
    entry.sent.fetch_add(sent, std::memory_order_relaxed);
    entry.received.fetch_add(received, std::memory_order_relaxed);
  }
  // A message is a send for one of the two and a recv for the other.
  void add_message(int mover, int from, int to, std::uint64_t bytes) const {
    if (from == to) return;
    add(mover, CommOp::send, from, bytes, 0);
    add(mover, CommOp::recv, to, 0, bytes);
  }

  Traffic of(CommOp op, int rank) const {
    Traffic sum;
    for (int mover = 0; mover < world_; ++mover) {
      sum.bytes_sent += at(mover, op, rank).sent.load(std::memory_order_relaxed);
      sum.bytes_received += at(mover, op, rank).received.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  MovedBytes& at(int mover, CommOp op, int rank) const {
    return first_[(mover * kCommOpCount + static_cast<int>(op)) * world_ + rank];
  }

  MovedBytes* first_;
  int world_;
};

// Bytes moved by one piece of work, added to the table at its end. One at a time per thread.
class PieceTally {
 public:
  PieceTally(const TrafficTable& table, int mover, CommOp op);
  ~PieceTally();
  PieceTally(const PieceTally&) = delete;
  PieceTally& operator=(const PieceTally&) = delete;

  // What a rank reads of its own memory is no traffic.
  void moved(int from, int to, std::int64_t bytes) {
    if (from == to) return;
    sums_[2 * from] += static_cast<std::uint64_t>(bytes);
    sums_[2 * to + 1] += static_cast<std::uint64_t>(bytes);
  }

 private:
  const TrafficTable table_;
  const int mover_;
  const CommOp op_;
  std::uint64_t* sums_;  // by rank: sent, received
};

}  // namespace starling::dist
