#pragma once

#include "starling/base/config/settings.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/dist/strategy/state/flat_tensors.h"

namespace starling {

struct LocalSgdOptions {
  std::int64_t every = 8;          // local steps between two averages
  bool average_optimizer = false;  // average the optimizer's moments too; else every rank keeps its own
  bool reset_optimizer = false;    // moments are 0 after an average; not with average_optimizer
  // Outer optimizer applied to the difference made by averaging; lr 1 and momentum 0 take the average itself.
  double outer_lr = 1;
  double outer_momentum = 0;
  bool outer_nesterov = true;
  static Settings settings();
};

// Local SGD: every rank trains by itself; after `every` steps the weights (and running statistics) become their mean,
// weighted by the samples each rank has seen since the last average. With outer momentum the mean is only a proposal:
// the difference between the last common weights and the mean is the gradient of an outer descent with (Nesterov)
// momentum, as in BMUF and DiLoCo. Learning rates and step counts are never averaged.
class LocalSgd : public dist::RankStrategy {
 public:
  LocalSgd(std::shared_ptr<Comm> comm, const LocalSgdOptions& options);

  std::string name() const override;
  void begin(const dist::TrainedState& state) override;
  void restored(std::int64_t step) override { together_ = meets_after(step - 1); }
  void after_update(std::int64_t step, double weight) override;
  bool meets_after(std::int64_t step) const override { return (step + 1) % options_.every == 0; }
  void settle() override;
  void count(double samples) { *samples_.data<double>() += samples; }  // more that this rank's weights have seen
  std::vector<dist::ModelSum> model() override;
  void regrouped() override;
  bool settles_to_evaluate() const override { return true; }
  bool settled() const override;
  std::vector<NamedTensor> tensors() const override;
  std::vector<dist::LawCounter> counters() const override;

 private:
  bool outer() const { return options_.outer_momentum != 0 || options_.outer_lr != 1; }
  double agree_on_samples();
  void average(dist::FlatTensors& flat, double share);
  void outer_step(std::size_t i);
  void sync();

  LocalSgdOptions options_;
  std::vector<dist::FlatTensors> weights_;  // by dtype
  std::vector<dist::FlatTensors> others_;   // averaged without outer step: running statistics, moments
  std::vector<NamedTensor> counted_;        // integers: taken from rank 0
  std::vector<NamedTensor> averaged_;       // tensors of weights_ and others_, by their names
  std::vector<NamedTensor> moments_;        // of the optimizer, if every rank keeps its own
  std::unique_ptr<Comm> saving_;            // group for model(), whose traffic is no part of the strategy's costs
  std::vector<Tensor> anchor_, velocity_;   // parallel to weights_, if outer()
  bool own_state_ = false;                  // moments differ between ranks
  Tensor samples_;                          // f64 count of this rank's samples since the last average
  bool together_ = true;
  std::int64_t steps_ = 0, syncs_ = 0;
  std::uint64_t begun_bytes_ = 0;  // of all-reduces before the first average
};

}  // namespace starling
