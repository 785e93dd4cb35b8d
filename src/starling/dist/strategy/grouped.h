#pragma once

#include "starling/dist/strategy/allreduce.h"
#include "starling/dist/strategy/strategy_kinds.h"
#include "starling/dist/strategy/topology.h"

namespace starling::dist {

// Hierarchical strategy: synchronous inside groups, another strategy between them. The ranks of a group run one global
// program over the rows of their group, and the group leaders synchronise by local_sgd or easgd, each for its group. A
// leader broadcasts changed state to its group, so that a group always stays consistent.
class Grouped final : public RankStrategy {
 public:
  // `between` makes the leaders' strategy on a communicator of the leaders; it must not exchange gradients. Collective.
  Grouped(std::shared_ptr<Comm> comm, const Topology& topology, const AllReduceOptions& inside,
          const StrategyMaker& between);

  std::string name() const override;
  int shards() const override { return inside_->shards(); }
  int groups() const override { return static_cast<int>(topology_.worker_groups); }
  bool global_program() const override { return true; }
  std::unique_ptr<runtime::Program> build(const graph::Graph& global, const Container& container,
                                          const runtime::BuildOptions& options) override;
  bool keeps_local_gradients() const override { return inside_->keeps_local_gradients(); }
  std::unique_ptr<runtime::Program> build_part(const graph::Graph& global, const Container& container,
                                               const runtime::BuildOptions& options) override {
    return inside_->build_part(global, container, options);
  }
  void begin(const TrainedState& state) override;
  void restored(std::int64_t step) override;
  void after_update(std::int64_t step, double weight) override;
  bool meets_after(std::int64_t step) const override;
  void settle() override;
  bool meets_alone() const override { return between_->meets_alone(); }
  void regrouped() override;
  bool sums_over_ranks(const std::string& tensor) const override { return inside_->sums_over_ranks(tensor); }
  std::vector<ModelSum> model() override;
  bool settles_to_evaluate() const override;
  bool settling_changes() const override { return between_->settling_changes(); }
  bool shows_to_evaluate() const override { return between_->shows_to_evaluate(); }
  void show() override;
  void unshow() override;
  bool settled() const override;
  std::vector<NamedTensor> tensors() const override;
  std::vector<LawCounter> counters() const override;
  OpCounters exchanged(CommOp op) const override;

  const Topology& topology() const { return topology_; }
  Topology::RankPosition position() const { return topology_.position(rank()); }

 private:
  void share_in_group(const char* what);

  Topology topology_;
  bool coded_;                             // gradients inside travel by a codec
  std::unique_ptr<AllReduce> inside_;      // on this rank's group
  std::shared_ptr<RankStrategy> between_;  // on the leaders' group; on other ranks a stand-in on a group of one
  std::vector<NamedTensor> weights_;
  std::vector<NamedTensor> shared_;  // weights, buffers and optimizer state
  std::int64_t handed_on_ = 0;
};

}  // namespace starling::dist
