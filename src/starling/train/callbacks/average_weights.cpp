#include <memory>

#include "starling/base/error.h"
#include "starling/optim/average.h"
#include "starling/runtime/compile.h"
#include "starling/train/callbacks/ready_made.h"

namespace starling {
namespace {

// Averages a network's weights after steps; buffers are not averaged.
class AverageWeights final : public Callback {
 public:
  explicit AverageWeights(const AverageOptions& options) : options_(options) {
    check(options.decay >= 0 && options.decay < 1 && options.every >= 1 && options.from_step >= 0,
          "[average_weights] expected a decay in [0, 1), every of at least 1 and from_step of at least 0, got {}, {} "
          "and {}",
          options.decay, options.every, options.from_step);
  }
  std::string name() const override { return options_.decay == 0 ? "swa" : "ema"; }
  bool looks_at_loss(std::int64_t) const override { return false; }

  void attach(Run& run) override {
    taken_ = 0;
    average_ = std::make_unique<optim::WeightAverage>(
        run.net().parameters(),
        optim::AverageOptions{.decay = options_.decay, .equal_weights = options_.decay == 0, .name = name()});
    update_ = std::make_unique<CompiledFunction>(
        [this](std::span<const Tensor>) {
          average_->update();
          return TensorList{};
        },
        CompileOptions{});
  }

  void step(Run& run) override {
    const std::int64_t step = run.state().step;
    if (step < options_.from_step || step % options_.every != 0) return;
    run.net();  // completes pending updates
    update_->call({});
    ++taken_;
  }

  void evaluated(Run& run) override {
    if (taken_ == 0) return;
    Evaluation evaluation;
    {
      const optim::AveragedScope averaged(*average_);
      evaluation = run.evaluate();
    }
    for (const auto& [metric, value] : evaluation.metrics) run.report(name() + "_" + metric, value);
  }

  // After end() of the other callbacks, so that checkpoints hold the trained weights, from which a run resumes.
  void finished(Run& run) override {
    if (options_.keep && taken_ > 0 && !run.interrupted()) average_->swap();
  }

  nlohmann::json state() const override { return {{"taken", taken_}}; }
  std::vector<NamedTensor> tensors() const override {
    std::vector<NamedTensor> all;
    if (average_) {
      for (const auto& [tensor_name, tensor] : average_->state()) all.push_back({tensor_name, tensor});
    }
    return all;
  }
  void restore(const nlohmann::json& state) override { taken_ = state.at("taken").get<std::int64_t>(); }

 private:
  AverageOptions options_;
  std::unique_ptr<optim::WeightAverage> average_;
  std::unique_ptr<CompiledFunction> update_;
  std::int64_t taken_ = 0;
};

}  // namespace

CallbackPtr average_weights(const AverageOptions& options) { return std::make_shared<AverageWeights>(options); }

}  // namespace starling
