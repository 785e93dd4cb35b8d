#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/train/callbacks/checkpoints.h"
#include "train/trainer_testing.h"

namespace starling::testing {

using MakeStrategy = std::function<std::shared_ptr<dist::RankStrategy>(std::shared_ptr<Comm>)>;

// Result of one rank of a run.
struct RankOutcome {
  FitResult result{};
  std::string hash{};
  std::vector<double> losses{};         // per step, as callbacks see them
  std::vector<std::int64_t> samples{};  // per step, over all ranks
};

// One run by several ranks as threads; each creates everything by the same recipe.
struct RankRun {
  int ranks = 2;
  MakeStrategy strategy = [](std::shared_ptr<Comm> comm) { return allreduce(std::move(comm)); };
  TrainerOptions options{};
  std::function<void(TrainerOptions&)> each{};  // per-rank changes of the options
  double dropout = 0;
  std::function<nn::Sequential()> net{};  // null: small_net(dropout)
  double rate = 0.1;
  data::DataSplits data{};
  ObjectivePtr objective = classify();
  std::function<void(Trainer&, int rank)> callbacks{};
  std::function<std::unique_ptr<Comm>(std::unique_ptr<Comm>)> decorate{};

  std::function<std::vector<std::unique_ptr<Comm>>(int ranks)> world = [](int size) {
    return make_thread_comms(size, {.deadline = std::chrono::milliseconds(60'000)});
  };

  std::vector<RankOutcome> run() const {
    auto comms = world(ranks);
    if (decorate) {
      for (auto& comm : comms) comm = decorate(std::move(comm));
    }
    std::vector<RankOutcome> outcomes(comms.size());
    run_ranks(comms, [&](Comm& comm) {
      RankOutcome& own = outcomes[static_cast<std::size_t>(comm.rank())];
      auto net = this->net ? this->net() : small_net(dropout);
      optim::Sgd optimizer(net.parameters(), {.lr = rate, .momentum = 0.9});
      TrainerOptions of_rank = quiet(options);
      if (each) each(of_rank);
      of_rank.strategy = strategy(std::shared_ptr<Comm>(&comm, [](Comm*) {}));
      Trainer trainer(net, optimizer, objective, of_rank);
      trainer.add(after_step([&](Run& run) {
        own.losses.push_back(run.last().loss);
        own.samples.push_back(run.last().samples);
      }));
      if (callbacks) callbacks(trainer, comm.rank());
      own.result = trainer.fit(data);
      own.hash = hash_of(net);
    });
    return outcomes;
  }
};

inline data::DataSplits splits(std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test = nullptr) {
  data::DataSplits data;
  data.train = std::move(train);
  data.test = std::move(test);
  return data;
}

}  // namespace starling::testing
