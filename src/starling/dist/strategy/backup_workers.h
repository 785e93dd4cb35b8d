#pragma once

#include "starling/base/settings.h"
#include "starling/dist/strategy/rank_strategy.h"

namespace starling {

class GradientDesk;

struct BackupWorkersOptions {
  std::int64_t backups = 1;  // workers that a step need not wait for
  double quorum = 0;         // > 0: instead, the share of the workers that a step waits for (Project Adam: 0.75)
  std::int64_t window = 16;  // steps that the slowest worker may lie behind before the others wait for it
  static Settings settings();
};

// Synchronous training that does not wait for the slowest: a step takes the mean of the first m of P gradients, of
// distinct workers and of this very step, weighted by their samples; those that come later are dropped and counted. All
// ranks apply the same agreed gradients, so that they stay equal, and a rank that finds a step closed() takes what was
// agreed without computing its own, until it has caught up. An epoch thus ends when m workers have finished it; the
// samples that were lost are others in every epoch, since their order is a function of (seed, epoch).
//
// A thread on rank 0 collects; every other rank sends it its gradients once a step and gets the mean.
class BackupWorkers final : public RankStrategy {
 public:
  BackupWorkers(std::shared_ptr<Comm> comm, const BackupWorkersOptions& options);
  ~BackupWorkers() override;

  std::string name() const override;
  void begin(const TrainedState& state) override;
  void restored(std::int64_t step) override;
  bool exchanges_gradients() const override { return true; }
  bool closed(std::int64_t step) override;
  void exchange(GradientStep& step) override;
  void settle() override;
  // Weights are equal on ranks that have made the same steps; running statistics are each rank's own.
  bool settled() const override { return buffers_.empty(); }
  std::vector<LawCounter> counters() const override;
  OpCounters exchanged(CommOp op) const override;

  int needed() const { return needed_; }
  // On rank 0: who contributed to a step; empty where it is open or long past.
  std::vector<int> contributors(std::int64_t step) const;

 private:
  struct Seat;

  BackupWorkersOptions options_;
  int needed_ = 1;
  std::vector<NamedTensor> buffers_;
  std::unique_ptr<GradientDesk> desk_;  // on rank 0
  std::unique_ptr<Seat> seat_;          // on the others
  std::int64_t exchanged_ = 0, skipped_ = 0;
};

}  // namespace starling
