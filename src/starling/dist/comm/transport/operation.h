#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "starling/dist/comm/algorithms/schedule.h"
#include "starling/dist/comm/fingerprint.h"
#include "starling/dist/comm/journal.h"
#include "starling/dist/comm/transport/transport.h"

namespace starling::dist {

// Pool of scratch memory, held by running operations and reused by later ones.
class ScratchPool {
 public:
  using Memory = std::unique_ptr<std::byte[]>;
  struct Piece {
    Memory memory;
    std::size_t bytes = 0;
  };

  Piece take(std::size_t bytes);  // smallest piece that fits; else grows the largest
  void give_back(Piece piece);

 private:
  std::vector<Piece> free_;
};

// Executes one rank's schedule over a transport, step by step, without blocking. The object is a reusable place for
// consecutive operations with growing sequence numbers. One thread at a time, except for ended().
class Operation {
 public:
  struct Peers {
    const std::vector<int>* ranks = nullptr;  // transport ranks of the group
    std::uint32_t channel = 0;
    Journal* journal = nullptr;  // is told of every round when it is given to the transport
  };

  // The schedule and the buffers of the call must live until the operation has ended.
  void begin(const Call& call, const Fingerprint& print, std::shared_ptr<const Schedule> schedule, const Peers& peers);

  // Starts and finishes all it can; true if the operation has ended.
  bool advance(Transport& transport, ScratchPool& pool);

  // True if the operation of this number, or a later one, has ended. Any thread.
  bool ended(std::uint64_t sequence) const { return completed_.load(std::memory_order_acquire) >= sequence; }
  const Fingerprint& print() const { return print_; }

  // Half of the call's time limit: from then on, listen for other ranks that ask for this rank's progress.
  CommTime half_time() const { return half_time_.load(std::memory_order_relaxed); }

  // Ranks of the group with outstanding transfers in this round, in order.
  std::vector<int> waits_for() const;
  std::size_t round() const { return round_; }
  std::size_t rounds() const { return schedule_ ? schedule_->rounds.size() : 0; }

 private:
  struct Outstanding {
    Transport::Transfer transfer;
    int peer;  // rank in the group
  };

  void start_round(Transport& transport);
  void run(const std::vector<LocalWork>& works) const;
  void run(const LocalWork& work) const;
  std::byte* address(const Block& block) const;

  DType dtype_ = DType::u8;
  ReduceOp reduce_ = ReduceOp::sum;
  Fingerprint print_;
  std::byte* send_ = nullptr;  // never written to, unless equal to recv_
  std::byte* recv_ = nullptr;
  std::shared_ptr<const Schedule> schedule_;
  Peers peers_;
  ScratchPool::Piece scratch_;
  std::vector<Outstanding> outstanding_;
  std::size_t round_ = 0;
  bool begun_ = false;
  std::atomic<CommTime> half_time_{CommTime{}};
  std::atomic<std::uint64_t> completed_{0};
};

}  // namespace starling::dist
