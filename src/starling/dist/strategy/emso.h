#pragma once

#include "starling/dist/strategy/local_sgd.h"

namespace starling {

struct EmsoOptions {
  std::int64_t inner = 4;  // steps on every minibatch
  double gamma = 1;        // of the squared distance from the weights that a minibatch began with
  std::int64_t every = 1;  // minibatches between two averages
  static Settings settings();
};

// Efficient minibatch optimisation (EMSO, Li and others 2014): of its rows of a minibatch each rank solves
//   argmin_w  mean f_i(w) + γ/2 · |w - w0|²
// approximately: `inner` steps of the optimizer on these same rows from w0 on, each followed by the exact proximal step
// w = (w + lr·γ·w0) / (1 + lr·γ). Then the weights of all ranks become their mean, as in LocalSgd. The loss of a step
// is that at w0.
class Emso final : public LocalSgd {
 public:
  Emso(std::shared_ptr<Comm> comm, const EmsoOptions& options);

  std::string name() const override;
  // A program that makes the steps; one without updates is refused.
  std::unique_ptr<runtime::Program> build(const graph::Graph& global, const Container& container,
                                          const runtime::BuildOptions& options) override;
  void begin(const dist::TrainedState& state) override;
  // Throws if a step with rows was not made by a program of build(), as between groups of workers, whose steps are the
  // groups' own.
  void after_update(std::int64_t step, double weight) override;
  std::vector<dist::LawCounter> counters() const override;

 private:
  class InnerSteps;
  struct Weight {
    Tensor tensor, first;  // first: w0
    double lr_scale = 1;
  };
  void mark();       // w0
  void pull_back();  // proximal step

  EmsoOptions inner_;
  std::vector<Weight> weights_;
  const optim::Optimizer* rule_ = nullptr;
  std::int64_t steps_made_ = 0;
};

}  // namespace starling
