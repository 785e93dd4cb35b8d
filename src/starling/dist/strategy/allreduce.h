#pragma once

#include "starling/base/settings.h"
#include "starling/dist/strategy/late_updates.h"
#include "starling/dist/strategy/rank_strategy.h"

namespace starling {

struct AllReduceOptions {
  // The same bits for any number of workers: the batch is cut into `shards` logical shards, each run by the same
  // program with one thread, and their gradients are added in shard order. Costs speed.
  bool deterministic = false;
  std::int64_t shards = 12;
  bool overlap = true;  // off: reductions wait their turn after what made them, and nothing hides them
  // Steps return when their loss is known; reductions and updates end while the next step runs forward. See finish().
  bool next_forward = false;
  double bucket_mb = 25;              // of small gradients that are reduced together
  int threads = 0;                    // of this rank; 0: as many as the program is built with
  std::string shard_order = "shard";  // "tree" adds per worker first: a control that loses the property
  static Settings settings();
};

// Synchronous data parallelism as one rank runs it: each step is one global program, of which this rank runs its part.
// Weights are replicated, batches are split by rows, and the partial gradients that follow become all-reduces, which
// overlap with the backward pass. Means are those of the whole batch, however uneven the rows, and a rank without rows
// makes the same calls as the others.
class AllReduce final : public RankStrategy, public LateUpdates {
 public:
  struct Behind;
  AllReduce(std::shared_ptr<Comm> comm, AllReduceOptions options);
  ~AllReduce() override;

  std::string name() const override;
  int shards() const override { return options_.deterministic ? static_cast<int>(options_.shards) : 0; }
  bool global_program() const override { return true; }
  bool lockstep() const override { return true; }
  std::unique_ptr<Program> build(const Graph& global, const Container& container, const BuildOptions& options) override;
  // Moves the trained state to where the other ranks of the host can read it, where the communicator has such memory.
  void begin(const TrainedState& state) override;
  void after_update(std::int64_t step, double weight) override;
  void settle() override { finish(); }
  void finish() override;  // needed with next_forward only
  std::vector<LawCounter> counters() const override;

 private:
  AllReduceOptions options_;
  std::shared_ptr<Behind> behind_;  // the program that has something to finish, shared by all of this strategy
  std::uint64_t steps_ = 0;
  double samples_ = 0;
};

inline std::shared_ptr<RankStrategy> allreduce(std::shared_ptr<Comm> comm, AllReduceOptions options = {}) {
  return std::make_shared<AllReduce>(std::move(comm), std::move(options));
}

}  // namespace starling
