#pragma once

#include "starling/dist/strategy/hogwild.h"
#include "starling/dist/strategy/local_sgd.h"

namespace starling {

struct ForkJoinOptions {
  std::int64_t nodes = 1;   // groups of equal size, of consecutive ranks; each lies on one host
  std::int64_t every = 32;  // steps between two averages
  std::int64_t lag = 0;     // steps behind the foremost of its node before a rank skips its rows; 0: never
  bool atomic = false;      // as in HogwildOptions
  static Settings settings();
};

// Asynchronous fork-join (H2O): the ranks of a node write one set of weights without locks (Hogwild), and every so many
// steps the nodes' weights become their mean, weighted by the samples that each node has seen (LocalSgd among the first
// ranks). For that the ranks of a node join: none writes while weights are averaged. Inside a node nothing is sent.
class ForkJoin final : public dist::RankStrategy {
 public:
  // Collective.
  ForkJoin(std::shared_ptr<Comm> comm, const ForkJoinOptions& options);

  std::string name() const override;
  int groups() const override { return static_cast<int>(options_.nodes); }
  void begin(const dist::TrainedState& state) override;
  void restored(std::int64_t step) override;
  bool exchanges_gradients() const override { return true; }
  bool updates() const override { return true; }
  bool takes_rows() const override { return true; }
  bool closed(std::int64_t step) override { return inside_->closed(step); }
  void exchange(dist::GradientStep& step) override;
  void after_update(std::int64_t step, double weight) override;
  bool meets_after(std::int64_t step) const override { return between_->meets_after(step); }
  void settle() override;
  bool settles_to_evaluate() const override { return true; }
  bool settled() const override { return world() == 1; }
  void regrouped() override;
  std::vector<dist::ModelSum> model() override;
  std::vector<NamedTensor> tensors() const override;
  std::vector<dist::LawCounter> counters() const override;
  dist::OpCounters exchanged(CommOp op) const override;

 private:
  double taken();
  bool leads() const { return inside_->rank() == 0; }
  // Runs `act` on the first rank of the node while the others wait.
  template <class F>
  void joined(const char* what, F&& act);

  ForkJoinOptions options_;
  std::unique_ptr<Hogwild> inside_;    // on this rank's node
  std::unique_ptr<LocalSgd> between_;  // among the first ranks; on others a stand-in on a group of one
  Tensor samples_;                     // f64, shared: of each rank of the node since the last average
  std::unique_ptr<dist::SharedTensors> memory_;
};

}  // namespace starling
