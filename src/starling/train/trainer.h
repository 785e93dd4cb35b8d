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

#include "starling/data/loader.h"
#include "starling/data/source.h"
#include "starling/data/stream.h"
#include "starling/optim/schedule.h"
#include "starling/train/callback.h"
#include "starling/train/metric.h"
#include "starling/train/non_finite.h"
#include "starling/train/precision.h"
#include "starling/train/progress.h"
#include "starling/train/summary.h"

namespace starling {

struct TrainerOptions {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;          // end after so many updates in all; 0: no cap
  std::int64_t seed = 1;           // of the order of samples and of the noise in the network
  std::int64_t batch = 64;         // samples in one forward pass, over all workers together
  std::int64_t accumulate = 1;     // batches that one update is made of; an epoch's last update may have fewer
  std::filesystem::path folder{};  // of the run: summary.json, and what callbacks put there. Empty: no files

  // Of the gradients before each update; 0: off. The norm is that of all gradients together.
  double clip_norm = 0;
  double clip_value = 0;
  NonFinite non_finite = NonFinite::automatic;  // gradients; f16 has loss scales instead, which skip such steps
  Precision precision = Precision::f32;
  std::shared_ptr<optim::Schedule> schedule{};  // of the learning rate; null: it stays as it is
  std::string watch{};                          // the metric that schedules observe; empty: the first one

  std::int64_t evaluate_every = 0;  // steps; every epoch ends with one anyway
  std::int64_t evaluate_batch = 500;
  std::vector<NamedMetric> metrics{};  // empty: those of the objective

  int threads = 0;  // of all workers together; of this rank where the strategy is one of a rank; 0: all cores
  // data_parallel({.workers = 2}), …; null: one worker. With one of a rank (RankStrategy) every rank makes a trainer,
  // a network and an optimizer of its own, with the same options, and all call the same functions.
  std::shared_ptr<Strategy> strategy{};
  double slow = 1;                // for studies of unequal workers: this one's computing takes so many times as long
  std::int64_t hash_every = 100;  // steps between two comparisons of the weights of all ranks; 0: none
  StreamOptions stream{};         // of data that is shards without an index
  LoaderOptions test_loader{};    // of evaluations; order and batch are set likewise
  LoaderOptions loader{};         // batch, seed and start are set by the trainer

  ProgressOptions progress{};
  std::function<bool()> stop{};                        // asked after every step; true: save and return. Null: never
  std::function<void(std::string_view why)> failed{};  // of ranks: told what this one throws before the others hear it
  std::ostream* explain = nullptr;                     // gets the compiled step's graph and explain() once it is built
  // What must be the same for a checkpoint to be gone on with, and how it is called: {"optimizer.lr", "0.05"}.
  std::map<std::string, std::string> identity{};
};

struct FitResult {
  Summary summary;
  bool interrupted = false;  // TrainerOptions::stop said so, before the end
  std::string ended_by{};    // why a callback ended the run; empty: it did not
};

// Trains a network: compiled steps over batches of data, evaluation at the end of each epoch, callbacks beside it.
//   auto net = zoo::lenet();
//   optim::Sgd optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
//   Trainer trainer(net, optimizer, classify(), {.epochs = 10, .folder = "runs/lenet"});
//   trainer.add(checkpoints({.every_steps = 500})).add(early_stop({.patience = 3}));
//   trainer.fit(data);
// The network and the optimizer must live as long. Use from one thread. Seeds the default random generator of the
// calling thread when a fit begins, so that a run is a function of its options, the initial weights and the data. A
// loss that is not finite throws, naming the step.
class Trainer {
 public:
  Trainer(nn::Module& net, optim::Optimizer& optimizer, ObjectivePtr objective, TrainerOptions options = {});
  ~Trainer();
  Trainer(Trainer&&) noexcept;

  Trainer& add(CallbackPtr callback);

  // Until the epochs or steps are done, a callback ends it, or `stop` says so. A second fit trains anew, with the
  // weights that the first left. Evaluations are of `valid` where there is one, else of `test`. A loader of your own is
  // used with its batch size, order and state.
  FitResult fit(const DataSplits& data);
  FitResult fit(std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test = nullptr);
  FitResult fit(Loader& train, std::shared_ptr<const Dataset> test = nullptr);

  // With the network in eval mode; its mode is as before afterwards.
  Evaluation evaluate(const std::shared_ptr<const Dataset>& data);
  Tensor predict(std::span<const Tensor> fields);  // of one batch: [n, …] each; the objective's prediction
  // Batch after batch in order: `take` gets the prediction and the number of its first sample.
  void predict(const std::shared_ptr<const Dataset>& data,
               const std::function<void(const Tensor& prediction, std::int64_t first)>& take);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace starling
