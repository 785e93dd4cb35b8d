#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "starling/dist/strategy/allreduce.h"
#include "starling/runtime/profiler.h"
#include "starling/train/ranks/link.h"
#include "starling/train/ranks/processes.h"

namespace starling::cli {

struct BenchRankOptions {
  std::string backend = "auto";
  std::string overlap = "on";  // off: nothing hides the reductions
  double bucket_mb = AllReduceOptions{}.bucket_mb;
};

// The processes that a measured step is shared by, as their starter (starling launch, mpirun, srun, …) tells; alone
// where nobody does. Each has a batch of its own, and the gradients of all are averaged by the strategy that jobs use.
class BenchRanks {
 public:
  explicit BenchRanks(const BenchRankOptions& options);  // collective: joins the others
  ~BenchRanks();
  BenchRanks(const BenchRanks&) = delete;
  BenchRanks& operator=(const BenchRanks&) = delete;

  bool alone() const { return strategy_ == nullptr; }
  bool leads() const { return rank() == 0; }
  int rank() const { return alone() ? 0 : strategy_->rank(); }
  int world() const { return alone() ? 1 : strategy_->world(); }
  int here() const { return alone() ? 1 : processes_.here; }  // of them on this host
  std::string backend() const;
  const std::shared_ptr<RankStrategy>& strategy() const { return strategy_; }  // null: alone

  std::int64_t agree(std::int64_t own);  // collective: rank 0's
  // Collective: the trace of all ranks on rank 0.
  std::string trace(const Profiler& profiler, Profiler::Clock::time_point began);
  // This rank has failed: the others are told before they can wait for it.
  void give_up(const std::string& why) const;

 private:
  Processes processes_;
  std::shared_ptr<RankStrategy> strategy_;
  std::optional<RankLink> link_;
};

}  // namespace starling::cli
