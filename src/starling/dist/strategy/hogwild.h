#pragma once

#include <atomic>

#include "starling/base/config/settings.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/dist/strategy/state/shared_tensors.h"
#include "starling/dist/strategy/uneven/catch_up.h"
#include "starling/dist/strategy/uneven/racy_update.h"

namespace starling {

struct HogwildOptions {
  bool atomic = false;      // concurrent updates of one weight are never lost; slower
  std::int64_t lag = 0;     // steps behind the foremost before a rank skips its rows; 0: never
  dist::RacyProbe probe{};  // for tests
  static Settings settings();
};

// Hogwild: ranks of one host, threads or processes, train one set of weights. Parameters, running statistics and
// momentum lie in memory that all of them write, without locks or copies. Each rank computes gradients of its own rows
// with the current weights and applies them at once (racy_update.cpp); of two concurrent updates one may be lost, which
// sparse problems hardly notice. Supports optim::Sgd only: plain descent with momentum and weight decay.
class Hogwild final : public dist::RankStrategy {
 public:
  Hogwild(std::shared_ptr<Comm> comm, const HogwildOptions& options);

  std::string name() const override;
  void begin(const dist::TrainedState& state) override;
  void restored(std::int64_t step) override;
  bool exchanges_gradients() const override { return true; }
  bool updates() const override { return true; }
  bool takes_rows() const override { return true; }
  bool closed(std::int64_t step) override;
  void exchange(dist::GradientStep& step) override;
  void settle() override;  // barrier
  // Weights are shared, but other ranks may be writing them meanwhile.
  bool settled() const override { return world() == 1; }
  std::vector<dist::LawCounter> counters() const override;

  const dist::SharedTensors& memory() const { return *memory_; }

 private:
  struct Rule {
    Tensor weight{}, velocity{};
    double lr_scale = 1;
    double weight_decay = 0;
  };

  std::atomic_ref<std::int64_t> done_by(int rank) const;
  void update(const Rule& rule, const Tensor& gradient, dist::RacySgd how);

  HogwildOptions options_;
  std::unique_ptr<dist::SharedTensors> memory_;
  const optim::Optimizer* optimizer_ = nullptr;
  dist::RacySgd how_{};
  std::vector<Rule> rules_;  // by index of the weight
  Tensor done_{};            // shared: steps made, by rank
  dist::CatchUp catch_up_;
  std::int64_t updates_ = 0, written_ = 0, rows_written_ = 0, left_out_ = 0;
  std::uint64_t sent_before_ = 0;  // bytes the communicator had sent when training began
};

}  // namespace starling
