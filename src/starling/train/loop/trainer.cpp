#include "starling/train/loop/trainer.h"

#include <fmt/format.h>

#include <utility>

#include "starling/base/error.h"
#include "starling/train/loop/fit_run.h"
#include "starling/train/loop/number_fields.h"
#include "starling/train/workers/worker_loop.h"
#include "starling/train/workers/worker_pool.h"

namespace starling {
namespace {

// Default identity: the options that determine the weights.
std::map<std::string, std::string> default_identity(const TrainerOptions& o) {
  return {{"seed", fmt::to_string(o.seed)},
          {"batch", fmt::to_string(o.batch)},
          {"accumulate", fmt::to_string(o.accumulate)},
          {"clip_norm", fmt::to_string(o.clip_norm)},
          {"clip_value", fmt::to_string(o.clip_value)},
          {"precision", std::string(to_string(o.precision))}};
}

TrainerOptions checked(TrainerOptions o) {
  check(o.epochs >= 0 && o.steps >= 0 && o.evaluate_every >= 0,
        "[Trainer] expected epochs, steps and evaluate_every of at least 0, got {}, {} and {}", o.epochs, o.steps,
        o.evaluate_every);
  check(o.batch >= 1 && o.accumulate >= 1 && o.evaluate_batch >= 1,
        "[Trainer] expected batch, accumulate and evaluate_batch of at least 1, got {}, {} and {}", o.batch,
        o.accumulate, o.evaluate_batch);
  check(o.finite_every >= 0 && o.rollbacks >= 0,
        "[Trainer] expected finite_every and rollbacks of at least 0, got {} and {}", o.finite_every, o.rollbacks);
  check(o.clip_norm >= 0 && o.clip_value >= 0,
        "[Trainer] expected clip_norm and clip_value of at least 0, got {} and {}", o.clip_norm, o.clip_value);
  if (o.identity.empty()) o.identity = default_identity(o);
  return o;
}

std::shared_ptr<dist::RankStrategy> rank_strategy(const TrainerOptions& o) {
  return std::dynamic_pointer_cast<dist::RankStrategy>(o.strategy);
}

// All ranks train with the same options, but only rank 0 writes files and prints.
TrainerOptions of_rank(TrainerOptions o) {
  const auto strategy = rank_strategy(o);
  if (!strategy) return o;
  if (strategy->shards() > 0) o.threads = 1;  // the order of summation must not depend on the machine
  if (strategy->rank() == 0) return o;
  o.progress.mode = ProgressMode::off;
  o.explain = nullptr;
  return o;
}

// Part of the rank of the data: rows of every batch, or shards of its own.
void cut_for_rank(LoaderOptions& loader, const dist::RankStrategy& strategy, bool stream) {
  loader.rank = strategy.data_rank();
  loader.ranks = strategy.data_ranks();
  if (!stream) {
    loader.groups = strategy.groups();
    loader.shards = strategy.shards();
    return;
  }
  check(strategy.data_ranks() == strategy.world(),
        "[Trainer] expected data whose samples are counted for {}, under which several ranks hold the same rows, got "
        "shards that are streamed",
        strategy.name());
  check(loader.batch >= loader.ranks, "[Trainer] expected a batch of at least one sample a rank, got {} for {} ranks",
        loader.batch, loader.ranks);
  loader.batch = strategy.rows(loader.batch).size;
}

// Portions of all samples, in one order: the loss must be one function, whose sums are rounded in one way.
void cut_for_procedure(LoaderOptions& loader, const dist::ServerRule& rule, int workers, std::int64_t samples) {
  loader.batch = samples;
  loader.ranks = static_cast<int>(rule.pieces(workers, samples));
  loader.shuffle = loader.drop_last = false;
}

// Of the device where the network is; null where that is the CPU.
std::shared_ptr<DeviceCopies> copies_for(const nn::Module& net) {
  const auto parameters = net.parameters();
  return parameters.empty() ? nullptr : device_copies(parameters.front().device());
}

train::EvaluatorOptions evaluator_options(const TrainerOptions& o, const std::shared_ptr<DeviceCopies>& copies) {
  LoaderOptions loader = o.test_loader;
  loader.copies = copies;
  loader.batch = o.evaluate_batch;
  return {.metrics = o.metrics, .loader = loader, .precision = o.precision, .threads = o.threads};
}

}  // namespace

struct Trainer::Parts {
  Parts(nn::Module& module, optim::Optimizer& updater, ObjectivePtr goal, TrainerOptions wanted)
      : net(module),
        optimizer(updater),
        objective(train::reading_numbers(std::move(goal))),
        options(checked(of_rank(std::move(wanted)))),
        copies(copies_for(module)),
        link(rank_strategy(options) ? std::make_unique<train::RankLink>(rank_strategy(options)) : nullptr),
        programs(net, optimizer, objective,
                 {.batch = options.batch,
                  .accumulate = options.accumulate,
                  .clip_norm = options.clip_norm,
                  .clip_value = options.clip_value,
                  .non_finite = options.non_finite,
                  .precision = options.precision,
                  .threads = options.threads,
                  .strategy = options.strategy,
                  .slow = options.slow,
                  .copies = copies}),
        evaluator(net, objective, evaluator_options(options, copies)) {}

  // A run that rolls back ends, and another resumes from the checkpoint, as after a restart of the process.
  FitResult fit(Loader& loader, const train::EvaluationData& test, const std::vector<std::string>& class_names) {
    train::Rollbacks rollbacks(options.non_finite == NonFinite::rollback ? options.rollbacks : 0);
    while (true) {
      train::FitRun run({net, optimizer, *objective, options, callbacks, programs, evaluator, rollbacks, link.get(),
                         options.pool.get()},
                        loader, test, class_names);
      if (auto result = run.run()) return std::move(*result);
    }
  }

  // As a worker: trains on what the leader hands out.
  FitResult work(const std::shared_ptr<const Dataset>& data, LoaderOptions loader) {
    check(data != nullptr,
          "[Trainer] expected data that can be asked by number for a worker, got shards without an index");
    auto* const served = dynamic_cast<dist::ServedStrategy*>(&link->strategy());
    check(served != nullptr, "[Trainer] expected a strategy over servers for a worker, got {}",
          link->strategy().name());
    served->look_at_gradients(options.non_finite != NonFinite::ignore);
    loader.ranks = options.workers;
    if (served->rule().procedure) cut_for_procedure(loader, served->rule(), options.workers, data->size());
    loader.portions = options.line;
    loader.prefetch = 1;
    const auto make = [&](data::DataPosition start) {
      loader.start = start;
      return std::make_unique<Loader>(data, loader);
    };
    train::work_for_leader({net, optimizer, programs, *served, *options.line, options.buffers.get(), options.seed,
                            options.stepped, options.watch_work},
                           make);
    return {};
  }

  nn::Module& net;
  optim::Optimizer& optimizer;
  ObjectivePtr objective;
  TrainerOptions options;
  std::shared_ptr<DeviceCopies> copies;
  std::unique_ptr<train::RankLink> link;  // connection to the other ranks; null: none
  std::vector<CallbackPtr> callbacks;
  train::StepPrograms programs;
  train::Evaluator evaluator;
};

Trainer::Trainer(nn::Module& net, optim::Optimizer& optimizer, ObjectivePtr objective, TrainerOptions options) {
  check(objective != nullptr, "[Trainer] expected an objective, got none");
  parts_ = std::make_unique<Parts>(net, optimizer, std::move(objective), std::move(options));
}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;

Trainer& Trainer::add(CallbackPtr callback) {
  check(callback != nullptr, "[Trainer] expected a callback, got none");
  parts_->callbacks.push_back(std::move(callback));
  return *this;
}

FitResult Trainer::fit(const data::DataSplits& data) {
  check(data.train || data.train_shards, "[Trainer] expected data to train on, got none");
  const TrainerOptions& o = parts_->options;
  LoaderOptions options = o.loader;
  options.batch = o.batch;
  options.copies = parts_->copies;
  options.seed = static_cast<std::uint64_t>(o.seed);
  if (o.line) return parts_->work(data.train, options);
  if (o.pool && o.pool->has_procedure()) options.drop_last = false;
  if (parts_->link) cut_for_rank(options, parts_->link->strategy(), !data.train);
  const bool valid = data.valid || data.valid_shards;
  const train::EvaluationData test{valid ? data.valid : data.test, valid ? data.valid_shards : data.test_shards};
  if (data.train) {
    Loader loader(data.train, options);
    return parts_->fit(loader, test, data.class_names);
  }
  Loader loader(*data.train_shards, o.stream, options);
  return parts_->fit(loader, test, data.class_names);
}

FitResult Trainer::fit(std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test) {
  data::DataSplits data;
  data.train = std::move(train);
  data.test = std::move(test);
  return fit(data);
}

FitResult Trainer::fit(Loader& train, std::shared_ptr<const Dataset> test) {
  return parts_->fit(train, {.set = std::move(test)}, {});
}

void Trainer::with_weights(const std::function<void(const Checkpoint&)>& use) {
  Checkpoint made;
  for (const auto& [name, tensor] : parts_->net.named_parameters()) made.tensors.push_back({name, tensor});
  const dist::ShardedState* pieces = parts_->link ? parts_->link->strategy().sharded() : nullptr;
  if (pieces == nullptr) return use(made);
  parts_->link->lend({}, made, use, pieces);
}

Evaluation Trainer::evaluate(const std::shared_ptr<const Dataset>& data) {
  if (parts_->link && parts_->link->strategy().settled())
    return parts_->evaluator.evaluate({.set = data}, {}, *parts_->link, true);
  return parts_->evaluator.evaluate({.set = data});
}

Tensor Trainer::predict(std::span<const Tensor> fields) { return parts_->evaluator.predict(fields); }

void Trainer::predict(const std::shared_ptr<const Dataset>& data,
                      const std::function<void(const Tensor& prediction, std::int64_t first)>& take) {
  parts_->evaluator.predict({.set = data}, take);
}

}  // namespace starling
