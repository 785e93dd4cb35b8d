// A small training on some thread ranks, of which each may store pieces of the state, and what came of it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "starling/optim/adam.h"
#include "train/ranks_testing.h"

namespace starling::testing {

using namespace train;  // NOLINT(google-build-using-namespace): these are its tests

// Rows that do not divide by 2, 3 or 4, and a layer of fewer rows than ranks of some tests.
inline nn::Sequential uneven_net() {
  manual_seed(3);
  nn::Sequential net;
  net.add("fc1", nn::Linear({.in = 8, .out = 33})).add("relu", nn::Relu());
  net.add("fc2", nn::Linear({.in = 33, .out = 21})).add("tanh", nn::Tanh());
  net.add("fc3", nn::Linear({.in = 21, .out = 4}));
  return net;
}

struct Outcome {
  std::vector<double> losses{};
  std::vector<std::vector<double>> weights{};
  FitResult result{};
  std::map<std::string, double> metrics{};
  dist::OpCounters scattered{}, gathered{};  // everything that this rank's communicator did
};

struct Recipe {
  int ranks = 1;
  int zero = 0;
  double bucket_mb = 25;
  dist::MeshChoice mesh = {};
  dist::LayoutChoice layout = {};
  std::function<std::shared_ptr<dist::RankStrategy>(std::shared_ptr<Comm>)> strategy{};  // null: all-reduce as above
  TrainerOptions options{.epochs = 2, .batch = 13};
  std::vector<std::string> metrics{};  // made for each rank: they hold what it has judged
  std::function<nn::Sequential()> net = uneven_net;
  std::function<void(Trainer&, int rank)> add{};
  std::function<void(optim::Optimizer&, int rank)> touch{};  // before the trainer is made
  ObjectivePtr objective = classify();
  data::DataSplits data = splits(points(103), points(40, 5));

  Outcome train(Comm* comm) const {
    Outcome own;
    auto made = net();
    optim::Adam optimizer(made.parameters(), {.lr = 0.01, .weight_decay = 0.01});
    if (touch) touch(optimizer, comm ? comm->rank() : 0);
    TrainerOptions of_rank = quiet(options);
    if (!metrics.empty()) of_rank.metrics = metrics_by_name(metrics);
    if (comm && strategy)
      of_rank.strategy = strategy(std::shared_ptr<Comm>(comm, [](Comm*) {}));
    else if (comm)
      of_rank.strategy = allreduce(std::shared_ptr<Comm>(comm, [](Comm*) {}),
                                   {.bucket_mb = bucket_mb, .zero = zero, .mesh = mesh, .layout = layout});
    Trainer trainer(made, optimizer, objective, of_rank);
    trainer.add(after_step([&](starling::Run& run) { own.losses.push_back(run.last().loss); }));
    if (add) add(trainer, comm ? comm->rank() : 0);
    own.result = trainer.fit(data);
    own.metrics = own.result.summary.metrics;
    for (const auto& parameter : made.parameters()) own.weights.push_back(parameter.to_vector());
    return own;
  }

  // Outcome of every rank; a single one is trained without ranks.
  std::vector<Outcome> run() const {
    if (ranks == 1) return {train(nullptr)};
    auto comms = make_thread_comms(ranks, {.deadline = std::chrono::milliseconds(60'000)});
    std::vector<Outcome> all(comms.size());
    run_ranks(comms, [&](Comm& comm) { all[static_cast<std::size_t>(comm.rank())] = train(&comm); });
    for (std::size_t rank = 0; rank < all.size(); ++rank) {  // when others have read all that a rank sent
      all[rank].scattered = comms[rank]->journal().counters(CommOp::reduce_scatter);
      all[rank].gathered = comms[rank]->journal().counters(CommOp::all_gather);
    }
    return all;
  }
};

inline void expect_like(const Outcome& some, const Outcome& one, double loss, double weight) {
  ASSERT_EQ(some.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    ASSERT_EQ(std::isfinite(some.losses[i]), std::isfinite(one.losses[i])) << i;
    if (!std::isfinite(one.losses[i])) continue;
    ASSERT_NEAR(some.losses[i], one.losses[i], loss) << i;
  }
  for (std::size_t i = 0; i < one.weights.size(); ++i) {
    for (std::size_t j = 0; j < one.weights[i].size(); ++j)
      ASSERT_NEAR(some.weights[i][j], one.weights[i][j], weight) << i << " " << j;
  }
}

// Whole state of a run at its end, by name, as a checkpoint holds it.
class Keep final : public Callback {
 public:
  explicit Keep(std::map<std::string, std::vector<double>>& into) : into_(into) {}
  std::string name() const override { return "keep"; }
  void end(starling::Run& run) override {
    const Checkpoint made = run.checkpoint();
    if (run.plan().rank != 0) return;
    for (const auto& [name, tensor] : made.tensors) into_[name] = tensor.to_vector();
  }

 private:
  std::map<std::string, std::vector<double>>& into_;
};

}  // namespace starling::testing
