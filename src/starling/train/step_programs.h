#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "starling/data/loader.h"
#include "starling/dist/strategy/late_updates.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/optim/loss_scaler.h"
#include "starling/runtime/compile.h"
#include "starling/train/callback.h"
#include "starling/train/non_finite.h"
#include "starling/train/precision.h"
#include "starling/train/ranks/slow_down.h"

namespace starling {

struct StepOptions {
  std::int64_t batch = 1;  // samples that sums of losses are divided by while they are summed, whatever there are
  std::int64_t accumulate = 1;
  double clip_norm = 0;
  double clip_value = 0;
  NonFinite non_finite = NonFinite::automatic;
  Precision precision = Precision::f32;
  int threads = 0;
  std::shared_ptr<Strategy> strategy{};
  double slow = 1;  // computing takes so many times as long
};

// The compiled programs of one training step. Normally one program does everything: forward, backward, clipping,
// update. With several batches a step one program adds the gradients of a batch and another makes the update. Whatever
// callbacks ask for is done by further programs, compiled when they first ask. With a strategy of one rank a batch
// holds the rows of this rank; strategies that exchange gradients do so between the two programs.
class StepPrograms {
 public:
  // The network and the optimizer must live as long.
  StepPrograms(nn::Module& net, optim::Optimizer& optimizer, ObjectivePtr objective, const StepOptions& options);

  // A step is begin, add once or more, end. The report gets loss, weight, norm and values.
  void begin(const StepWants& wants, std::int64_t step);  // number of the update, from 0
  void add(const Batch& batch);
  struct Result {
    double loss = 0;
    double weight = 0;  // of the rows that the loss is the mean of: all, or this rank's where programs are its own
    double gradient_norm = 0;
    std::int64_t rows = 0;     // of this rank that were computed; those of a step that it left out were not
    bool skipped = false;      // nothing was updated
    std::string non_finite{};  // the gradients that were not finite: "'fc1.weight' and 2 more"; empty: none
    StepValues values{};
  };
  Result end();

  // Steps may leave their updates to the next one (dist/strategy/late_updates.h). Whoever reads or writes parameters,
  // optimizer or the state here between steps calls this before.
  void finish_updates();

  CompiledFunction& main_program() { return program({}, split_ ? Kind::backward : Kind::whole); }
  double loss_scale() const { return scaler_ ? scaler_->value() : 1; }
  std::vector<std::pair<std::string, Tensor>> state() const;  // of the loss scale, for checkpoints

 private:
  enum class Kind { whole, backward };
  // What a program returns after the loss, in this order; known once it was traced.
  struct Layout {
    bool weight = false;
    bool norm = false;
    bool skip = false;
    std::vector<std::string> judged{};  // of which there is a flag each: whether it is finite
    bool wants_gradients = false;
    bool prediction = false;
    std::vector<std::string> gradients{};
    std::vector<std::string> activations{};
  };
  struct Program {
    std::unique_ptr<CompiledFunction> function;
    std::shared_ptr<Layout> layout;
  };

  CompiledFunction& program(const StepWants& wants, Kind kind) { return *find(wants, kind).function; }
  Program& find(const StepWants& wants, Kind kind);
  TensorList trace(std::span<const Tensor> in, const StepWants& wants, Kind kind, Layout& layout);
  void finish(TensorList& out, Layout& layout, const Tensor& loss);
  Tensor judge(Layout& layout, const Tensor& loss) const;
  void update();
  double exchange();
  void drop_gradients() const;
  void take(const TensorList& out, const Layout& layout, std::size_t next);
  template <class F>
  auto naming_late_step(F&& work);
  void read_flags(const Tensor& finite, const Layout& layout);

  nn::Module& net_;
  optim::Optimizer& optimizer_;
  ObjectivePtr objective_;
  StepOptions options_;
  std::shared_ptr<RankStrategy> ranks_;  // the strategy, where it is one of a rank
  LateUpdates* late_;                    // the strategy, where it may leave updates to the next step
  std::int64_t late_step_ = 0;           // the last step whose program has run
  bool global_;                          // its programs are traced with the rows of all ranks
  bool exchanges_;                       // gradients, between backward and update
  bool split_;                           // backward and update are two programs
  Device device_;
  bool judges_;     // whether gradients are finite
  Tensor inverse_;  // a variable: what summed gradients are multiplied with before the update
  std::map<int, Program> programs_;
  Program updates_[2];                       // without and with gradients
  std::optional<optim::LossScaler> scaler_;  // of f16
  SlowDown slow_;
  StepWants wants_{};
  Result result_{};
  double loss_sum_ = 0;
  std::int64_t step_ = 0;
  std::vector<NamedTensor> gradients_;  // of the step being exchanged
  std::vector<Tensor> moved_;           // fields on the device of the network
};

}  // namespace starling
