#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "starling/data/loading/loader.h"
#include "starling/data/loading/stream.h"
#include "starling/data/source.h"
#include "starling/optim/schedule.h"
#include "starling/train/callback.h"
#include "starling/train/loop/non_finite.h"
#include "starling/train/loop/precision.h"
#include "starling/train/loop/progress.h"
#include "starling/train/metric.h"
#include "starling/train/run/summary.h"

namespace starling::train {
class LeaderLine;
class SharedBuffers;
class WorkerPool;
struct WorkState;
}  // namespace starling::train

namespace starling {

struct TrainerOptions {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;          // limit of updates in all; 0: none
  std::int64_t seed = 1;           // for sample order and network noise (dropout)
  std::int64_t batch = 64;         // samples per forward pass, over all workers
  std::int64_t accumulate = 1;     // batches per update; an epoch's last update may have fewer
  std::filesystem::path folder{};  // run folder: summary.json and files of callbacks; empty: no files

  // Gradient clipping before each update; 0: off. The norm is over all gradients together.
  double clip_norm = 0;
  double clip_value = 0;
  NonFinite non_finite = NonFinite::automatic;  // treatment of such values; f16 skips gradients by loss scaling
  std::int64_t finite_every = 100;              // steps between looks at the state; 0: only before checkpoints
  int rollbacks = 5;                            // most to one checkpoint, with NonFinite::rollback
  Precision precision = Precision::f32;
  std::shared_ptr<optim::Schedule> schedule{};  // learning rate schedule; null: constant
  std::string watch{};                          // metric that schedules observe; empty: the first one

  std::int64_t evaluate_every = 0;  // steps between evaluations, in addition to one after each epoch; 0: none
  std::int64_t evaluate_batch = 500;
  std::vector<NamedMetric> metrics{};  // empty: the objective's metrics

  int threads = 0;  // over all workers, or of this rank with a RankStrategy; 0: all cores
  // data_parallel({.workers = 2}), …; null: one worker. With a RankStrategy every rank creates its own trainer, network
  // and optimizer with the same options, and all ranks call the same functions.
  std::shared_ptr<runtime::Strategy> strategy{};
  // Workers over parameter servers. The leader of such a run has a pool and computes nothing itself; every worker has a
  // line to the leader and a strategy of its own, and its fit() trains on what the leader hands out. Null: neither.
  std::shared_ptr<train::WorkerPool> pool{};
  std::shared_ptr<train::LeaderLine> line{};
  std::shared_ptr<train::SharedBuffers> buffers{};   // of the first worker; else null
  int workers = 1;                                   // with a line: all workers of the run
  std::function<void(std::int64_t step)> stepped{};  // with a line: called after every step of this worker
  // With a line: sees the program that this worker runs, as train::watch_work makes it. May be null.
  std::function<void(const train::WorkState& work)> watch_work{};
  double slow = 1;                // artificial slow-down factor of this worker, for studies of stragglers
  std::int64_t hash_every = 100;  // steps between comparisons of all ranks' weights; 0: none
  StreamOptions stream{};         // for streamed shards
  LoaderOptions test_loader{};    // for evaluations; order and batch are set by the trainer
  LoaderOptions loader{};         // for training; batch, seed and start are set by the trainer

  ProgressOptions progress{};
  // With weights that ranks store in pieces: at the end all ranks hold all of them, as code that has the network
  // expects. Off: with_weights() has them without any rank holding the whole.
  bool whole_at_end = true;
  std::function<bool()> stop{};                        // polled after every step; true: save and return. Null: never
  std::function<void(std::string_view why)> failed{};  // told this rank's error before the others learn of it
  std::ostream* explain = nullptr;                     // receives the compiled step's graph and explain() once
  // Settings that must match those of a checkpoint to resume from it: {"optimizer.lr", "0.05"}.
  std::map<std::string, std::string> identity{};
};

struct FitResult {
  Summary summary;
  bool interrupted = false;       // TrainerOptions::stop ended it early
  std::string ended_by{};         // why a callback ended the run; empty: none did
  bool was_finished = false;      // the run had reached its end before: nothing was trained, its summary is kept
  bool summary_written = false;   // summary.json of this run is in its folder
  data::DataPosition position{};  // of the next sample
};

// Trains a network: compiled steps over batches of data, evaluation at the end of each epoch, callbacks beside it.
//   auto net = zoo::lenet();
//   optim::Sgd optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
//   Trainer trainer(net, optimizer, classify(), {.epochs = 10, .folder = "runs/lenet"});
//   trainer.add(checkpoints({.every_steps = 500})).add(early_stop({.patience = 3}));
//   trainer.fit(data);
// Samples of bytes or f64 become f32 where a network of f32 begins: bytes 0 to 1, unless the network takes bytes.
// The network and the optimizer must outlive the trainer. Use from one thread. Seeds the default random generator of
// the calling thread when a fit begins, so that a run is a function of its options, the initial weights and the data. A
// non-finite loss throws, naming the step.
class Trainer {
 public:
  Trainer(nn::Module& net, optim::Optimizer& optimizer, ObjectivePtr objective, TrainerOptions options = {});
  ~Trainer();
  Trainer(Trainer&&) noexcept;

  Trainer& add(CallbackPtr callback);

  // Trains until epochs or steps are done, a callback ends the run, or `stop` returns true. A second fit starts a new
  // run with the weights that the first left. Evaluates on `valid` if present, else on `test`. A loader passed in keeps
  // its batch size, order and state.
  FitResult fit(const data::DataSplits& data);
  FitResult fit(std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test = nullptr);
  FitResult fit(Loader& train, std::shared_ptr<const Dataset> test = nullptr);

  // Calls use() with the parameters, those stored in pieces as Checkpoint tells tensors that lie elsewhere. Collective:
  // all ranks call it after fit(); only rank 0 can fetch.
  void with_weights(const std::function<void(const Checkpoint&)>& use);

  // Evaluates in eval mode and restores the network's mode.
  Evaluation evaluate(const std::shared_ptr<const Dataset>& data);
  Tensor predict(std::span<const Tensor> fields);  // the objective's prediction for one batch, fields [n, …]
  // Predicts batch by batch in order: `take` gets the prediction and the index of its first sample.
  void predict(const std::shared_ptr<const Dataset>& data,
               const std::function<void(const Tensor& prediction, std::int64_t first)>& take);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace starling
