#pragma once

#include <map>

#include "starling/dist/strategy/coordinator.h"
#include "starling/dist/strategy/quorum.h"
#include "starling/dist/strategy/rank_strategy.h"

namespace starling {

// On rank 0: where the gradients of all ranks meet, and the means of those that came in time are kept until every rank
// has had them. Rank 0's own thread and the coordinator's come here, one at a time.
class GradientDesk final : public Coordinator::Handler {
 public:
  // Notes of workers: gradients of a step, or only the wish to have what was agreed of it. Both are answered by the
  // mean, with its weight, and the newest step that is closed.
  enum Kind : std::int64_t { kOffer = 1, kTake = 2 };

  // needed: gradients that close a step; window: steps that are kept for the slowest.
  GradientDesk(Comm& comm, int needed, std::int64_t window, std::vector<NamedTensor> weights,
               std::vector<std::unique_ptr<Comm>> lines);

  // For rank 0 itself.
  void go_on_at(std::int64_t step);
  bool closed(std::int64_t step) const;
  void contribute(const GradientStep& step);
  void take(GradientStep& step);  // waits until the step is closed

  std::vector<int> contributors(std::int64_t step) const;  // empty where it is open or long past
  std::vector<LawCounter> counters() const;
  OpCounters exchanged(CommOp op) const;  // with the workers; what rank 0 itself waited for counts as recv

  std::span<FlatTensors> payload_of(int worker, const Note& note) override;
  void came(int worker, const Note& note) override;
  bool answer(Coordinator& lines) override;
  void failed() override;

 private:
  struct Agreed {
    double weight = 0;
    std::shared_ptr<std::vector<FlatTensors>> mean;
    int untaken = 0;  // ranks that have not had it yet
  };

  // With the lock.
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
  std::vector<std::int64_t> waits_for_;  // step that a worker wants to have; -1: none
  bool broken_ = false;
  std::int64_t counted_ = 0, late_ = 0, repeated_ = 0, closed_steps_ = 0, window_waits_ = 0;
  double late_weight_ = 0;
  std::chrono::nanoseconds waited_{0};        // by rank 0 itself, for gradients of others
  std::unique_ptr<Coordinator> coordinator_;  // null without workers; ends before what it works with
};

}  // namespace starling
