#pragma once

#include "starling/base/config/settings.h"
#include "starling/dist/strategy/rank_strategy.h"

namespace starling::dist {
class GradientAggregator;
}

namespace starling {

struct BackupWorkersOptions {
  std::int64_t backups = 1;  // workers that a step need not wait for
  double quorum = 0;         // > 0: used instead; fraction of workers that a step waits for (Project Adam: 0.75)
  std::int64_t window = 16;  // steps that the slowest worker may lag before the others wait
  static Settings settings();
};

// Synchronous training with backup workers: a step takes the sample-weighted mean of the first m of P gradients, from
// distinct workers and of this very step; later ones are dropped and counted. All ranks apply the same agreed gradients
// and stay equal; a rank that finds a step closed() takes the agreed mean without computing its own, until it has
// caught up. An epoch thus ends when m workers have finished it; the samples lost differ in every epoch, since their
// order is a function of (seed, epoch).
//
// An aggregator thread on rank 0 collects; every other rank sends it its gradients once per step and gets the mean.
class BackupWorkers final : public dist::RankStrategy {
 public:
  BackupWorkers(std::shared_ptr<Comm> comm, const BackupWorkersOptions& options);
  ~BackupWorkers() override;

  std::string name() const override;
  void begin(const dist::TrainedState& state) override;
  void restored(std::int64_t step) override;
  bool exchanges_gradients() const override { return true; }
  bool closed(std::int64_t step) override;
  void exchange(dist::GradientStep& step) override;
  void settle() override;
  // True without buffers: weights are equal after equal steps, but running statistics are each rank's own.
  bool settled() const override { return buffers_.empty(); }
  std::vector<dist::LawCounter> counters() const override;
  dist::OpCounters exchanged(CommOp op) const override;

  int needed() const { return needed_; }
  // Contributors to a step, on rank 0 only; empty if it is open or long past.
  std::vector<int> contributors(std::int64_t step) const;

 private:
  struct Worker;

  BackupWorkersOptions options_;
  int needed_ = 1;
  std::vector<NamedTensor> buffers_;
  std::unique_ptr<dist::GradientAggregator> aggregator_;  // aggregator, on rank 0
  std::unique_ptr<Worker> worker_;                        // worker's side, on the other ranks
  std::int64_t exchanged_ = 0, skipped_ = 0;
};

}  // namespace starling
