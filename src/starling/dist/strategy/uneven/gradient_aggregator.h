#pragma once

#include <map>

#include "starling/dist/strategy/rank_strategy.h"
#include "starling/dist/strategy/uneven/coordinator.h"
#include "starling/dist/strategy/uneven/quorum.h"

namespace starling::dist {

// Gradient aggregator on rank 0: collects the gradients of all ranks and keeps the mean of those that arrived in time
// until every rank has taken it. Used by rank 0's own thread and the coordinator's, under a lock.
class GradientAggregator final : public Coordinator::Handler {
 public:
  // Notes of workers: kOffer brings the gradients of a step, kTake only asks for its mean. Both are answered by the
  // mean, its weight, and the newest closed step.
  enum Kind : std::int64_t { kOffer = 1, kTake = 2 };

  // needed: gradients that close a step; window: steps kept for the slowest worker.
  GradientAggregator(Comm& comm, int needed, std::int64_t window, std::vector<NamedTensor> weights,
                     std::vector<std::unique_ptr<Comm>> lines);

  // Interface of rank 0's own training thread.
  void go_on_at(std::int64_t step);
  bool closed(std::int64_t step) const;
  void contribute(const GradientStep& step);
  void take(GradientStep& step);  // blocks until the step is closed

  std::vector<int> contributors(std::int64_t step) const;  // empty if the step is open or long past
  std::vector<LawCounter> counters() const;
  OpCounters exchanged(CommOp op) const;  // with the workers; rank 0's own waiting time counts as recv

  std::span<FlatTensors> payload_of(int worker, const Note& note) override;
  void came(int worker, const Note& note) override;
  bool answer(Coordinator& lines) override;
  void failed() override;

 private:
  struct Agreed {
    double weight = 0;
    std::shared_ptr<std::vector<FlatTensors>> mean;
    int untaken = 0;  // ranks that have not taken it yet
  };

  // Functions below require the lock.
  void add(int worker, std::int64_t step, double weight);
  void close_if_ready();
  void taken(std::int64_t step);
  std::shared_ptr<std::vector<FlatTensors>> mean_of(const std::vector<int>& who) const;

  Comm& comm_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Quorum quorum_;
  std::size_t window_;
  std::vector<NamedTensor> like_;
  std::vector<std::vector<FlatTensors>> given_;  // by rank
  std::map<std::int64_t, Agreed> agreed_;        // steps that some rank has not taken yet
  std::map<std::int64_t, std::vector<int>> history_;
  std::vector<std::int64_t> waits_for_;  // by worker: step whose mean it awaits; -1: none
  bool broken_ = false;
  std::int64_t counted_ = 0, late_ = 0, repeated_ = 0, closed_steps_ = 0, window_waits_ = 0;
  double late_weight_ = 0;
  std::chrono::nanoseconds waited_{0};        // time rank 0 itself waited for gradients of others
  std::unique_ptr<Coordinator> coordinator_;  // null without workers; last, to be destroyed before what it uses
};

}  // namespace starling::dist
