#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "starling/dist/strategy/allreduce.h"
#include "starling/runtime/profile/profiler.h"
#include "starling/train/ranks/link.h"
#include "starling/train/ranks/processes.h"

namespace starling::cli {

struct BenchRankOptions {
  std::string backend = "auto";
  std::string overlap = "on";  // of reductions with the backward pass; or off
  double bucket_mb = AllReduceOptions{}.bucket_mb;
  std::string codec = "none";  // wire form of gradients, by its name or as a map
};

// Processes that share a measured step, as told by their launcher (starling launch, mpirun, srun, …); a single rank
// otherwise. Each has its own batch, and the gradients are averaged by the strategy that jobs use.
class BenchRanks {
 public:
  explicit BenchRanks(const BenchRankOptions& options);  // collective: joins the world
  ~BenchRanks();
  BenchRanks(const BenchRanks&) = delete;
  BenchRanks& operator=(const BenchRanks&) = delete;

  bool alone() const { return strategy_ == nullptr; }
  bool leads() const { return rank() == 0; }
  int rank() const { return alone() ? 0 : strategy_->rank(); }
  int world() const { return alone() ? 1 : strategy_->world(); }
  int here() const { return alone() ? 1 : processes_.here; }  // ranks on this host
  std::string backend() const;
  const std::shared_ptr<dist::RankStrategy>& strategy() const { return strategy_; }  // null: a single rank

  std::int64_t agree(std::int64_t own);  // collective: returns rank 0's value
  // Collective: the trace of all ranks on rank 0.
  std::string trace(const Profiler& profiler, Profiler::Clock::time_point began);
  // Reports this rank's failure, so that the others do not wait for it.
  void give_up(const std::string& why) const;

 private:
  train::Processes processes_;
  std::shared_ptr<dist::RankStrategy> strategy_;
  std::optional<train::RankLink> link_;
};

}  // namespace starling::cli
