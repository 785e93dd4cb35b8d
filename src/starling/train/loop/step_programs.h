#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "starling/data/loading/loader.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/optim/loss_scaler.h"
#include "starling/runtime/compile.h"
#include "starling/train/callback.h"
#include "starling/train/loop/late_losses.h"
#include "starling/train/loop/non_finite.h"
#include "starling/train/loop/precision.h"
#include "starling/train/ranks/slow_down.h"

namespace starling::train {

struct StepOptions {
  std::int64_t batch = 1;  // nominal batch size, divides losses while accumulating
  std::int64_t accumulate = 1;
  double clip_norm = 0;
  double clip_value = 0;
  NonFinite non_finite = NonFinite::automatic;
  Precision precision = Precision::f32;
  int threads = 0;
  std::shared_ptr<runtime::Strategy> strategy{};
  double slow = 1;                         // artificial slow-down factor of the computation
  std::shared_ptr<DeviceCopies> copies{};  // to and from the network's device; null: the host waits for every loss
};

// Compiled programs of a training step. Normally one program does everything: forward, backward, clipping, update. With
// gradient accumulation one program adds up the gradients of a batch and another makes the update: it alone exchanges
// gradients, once a step, where the strategy keeps them local until then. Outputs requested by
// callbacks come from further programs, compiled on first request. With a RankStrategy a batch holds this rank's rows;
// strategies that exchange gradients do so between the two programs.
class StepPrograms {
 public:
  // `net` and `optimizer` must outlive this object.
  StepPrograms(nn::Module& net, optim::Optimizer& optimizer, ObjectivePtr objective, const StepOptions& options);

  // A step is begin(), add() once or more, end().
  void begin(const StepWants& wants, std::int64_t step);  // step: number of the update, from 0
  void add(const Batch& batch);
  struct Result {
    double loss = 0;
    double weight = 0;  // of the rows in the loss: all ranks' rows, or this rank's if each runs its own program
    double gradient_norm = 0;
    std::int64_t rows = 0;     // rows of the rank that were computed; 0 in a step that it left out
    bool late = false;         // the loss is on its way to the host: late_loss() has it; it and the weight are 0 here
    bool skipped = false;      // no update was made
    std::string non_finite{};  // names of non-finite gradients: "'fc1.weight' and 2 more"; empty: none
    StepValues values{};
  };
  Result end();
  // Instead of add() and end(): a step of `batches` batches without an update, as if its gradients had been skipped.
  // All ranks leave out the same step.
  Result leave_out(std::int64_t batches);

  // Losses of late results, in the order of their steps; none if the next has not arrived and is not waited for.
  std::optional<LateLosses::Loss> late_loss(bool wait) { return late_ ? late_->take(wait) : std::nullopt; }
  bool late_losses_full() const { return late_ && late_->full(); }  // the next step needs a late_loss(true) before it
  void forget_late_losses() {
    if (late_) late_->forget();
  }

  CompiledFunction& main_program() { return program({}, split_ ? Kind::backward : Kind::whole); }
  double loss_scale() const { return scaler_ ? scaler_->value() : 1; }
  std::vector<std::pair<std::string, Tensor>> state() const;  // loss scaler state for checkpoints

 private:
  enum class Kind { whole, backward };
  // Outputs of a program after the loss, in this order; known once it is traced.
  struct Returned {
    bool weight = false;
    bool norm = false;
    bool skip = false;
    std::vector<std::string> judged{};  // names of the values with a finiteness flag
    bool wants_gradients = false;
    bool prediction = false;
    std::vector<std::string> gradients{};
    std::vector<std::string> activations{};
    std::vector<std::string> row_gradients{};  // names of gradients returned as rows and values
  };
  struct Program {
    std::unique_ptr<CompiledFunction> function;
    std::shared_ptr<Returned> returned;
  };

  CompiledFunction& program(const StepWants& wants, Kind kind) { return *find(wants, kind).function; }
  Program& find(const StepWants& wants, Kind kind);
  TensorList trace(std::span<const Tensor> in, const StepWants& wants, Kind kind, Returned& returned);
  void finish(TensorList& out, Returned& returned, const Tensor& loss);
  Tensor judge(Returned& returned, const Tensor& loss) const;
  bool takes_rows() const;
  void give_rows(TensorList& out, Returned& returned) const;
  void put_rows(const TensorList& out, const Returned& returned, std::size_t next) const;
  void update();
  double exchange();
  void drop_gradients() const;
  void take(const TensorList& out, const Returned& returned, std::size_t next);
  void read_flags(const Tensor& finite, const Returned& returned);

  nn::Module& net_;
  optim::Optimizer& optimizer_;
  ObjectivePtr objective_;
  StepOptions options_;
  std::shared_ptr<dist::RankStrategy> ranks_;  // the strategy, if it is a RankStrategy; else null
  bool global_;                                // programs are traced with the rows of all ranks
  bool exchanges_;                             // gradients are exchanged between backward and update
  bool split_;                                 // backward and update are two programs
  std::shared_ptr<runtime::Strategy> parts_;   // strategy of both, where gradients stay local between them; else null
  Device device_;
  bool judges_;     // checks whether gradients are finite
  Tensor inverse_;  // variable: factor of the summed gradients before the update
  std::map<int, Program> programs_;
  Program updates_[2];                       // without and with returned gradients
  std::optional<optim::LossScaler> scaler_;  // for f16
  std::optional<LateLosses> late_;           // where nothing of a step depends on the loss of the one before
  SlowDown slow_;
  StepWants wants_{};
  Result result_{};
  double loss_sum_ = 0;
  std::int64_t step_ = 0;
  std::vector<NamedTensor> gradients_;  // gradients being exchanged
  std::vector<Tensor> moved_;           // fields copied to the network's device
};

}  // namespace starling::train
