// Runs with updates during the next forward pass: readers see the same as without.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "starling/dist/comm/faulty/faulty_comm.h"
#include "starling/optim/schedules.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/loop/reads_through_run.h"
#include "starling/train/ranks/link.h"
#include "train/ranks_testing.h"

namespace starling::train {
namespace {

using testing::hash_of;
using testing::points;
using testing::splits;

// Reads the weights through the run from time to time.
class Looks final : public Callback, public ReadsThroughRun {
 public:
  std::string name() const override { return "looks"; }
  void step(starling::Run& run) override {
    if (run.state().step % 3 == 0) seen.push_back(hash_of(run.net()));
  }
  void evaluated(starling::Run& run) override {
    seen.push_back(std::to_string(run.evaluation().metrics.begin()->second));
  }
  std::vector<std::string> seen;
};

// Holds the weight tensors directly, bypassing the run.
class Holds final : public Callback {
 public:
  std::string name() const override { return "holds"; }
  void attach(starling::Run& run) override { net_ = &run.net(); }
  void step(starling::Run&) override { seen.push_back(hash_of(*net_)); }
  std::vector<std::string> seen;

 private:
  const nn::Module* net_ = nullptr;
};

struct Recipe {
  bool next_forward = false;
  bool holds = false;
  TrainerOptions options{.epochs = 3, .batch = 16};
  dist::FaultPlan faults{};
};

struct Outcome {
  std::string hash, summary_hash;
  double loss = 0;
  std::vector<std::string> seen;
  std::uint64_t finished_late = 0;  // exchanges under way when callbacks were called after a step
  bool operator==(const Outcome& other) const {
    return hash == other.hash && summary_hash == other.summary_hash && loss == other.loss && seen == other.seen;
  }
};

// Counts the steps after which exchanges are still under way.
class Counts final : public Callback, public ReadsThroughRun {
 public:
  std::string name() const override { return "counts"; }
  void step(starling::Run& run) override {
    if (!run.link()->strategy().comm().journal().waiting().empty()) ++late;
  }
  std::uint64_t late = 0;
};

// Trains two ranks; returns rank 0's result.
Outcome train(const Recipe& recipe) {
  auto comms = make_thread_comms(2, {.deadline = std::chrono::milliseconds(60'000)});
  for (auto& comm : comms) comm = make_faulty(std::move(comm), recipe.faults);
  Outcome outcome;
  run_ranks(comms, [&](Comm& comm) {
    auto net = testing::small_net();
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    TrainerOptions options = testing::quiet(recipe.options);
    options.schedule = optim::make_schedule(optim::OneCycleOptions{});
    options.strategy = std::make_shared<AllReduce>(
        std::shared_ptr<Comm>(&comm, [](Comm*) {}),
        AllReduceOptions{.next_forward = recipe.next_forward, .bucket_mb = 512.0 / (1 << 20), .threads = 1});
    Trainer trainer(net, optimizer, classify(), options);
    const auto counts = std::make_shared<Counts>();
    const auto looks = std::make_shared<Looks>();
    const auto holds = std::make_shared<Holds>();
    trainer.add(counts);
    trainer.add(looks);
    trainer.add(average_weights({.decay = 0.9, .every = 2}));
    if (recipe.holds) trainer.add(holds);
    const FitResult result = trainer.fit(splits(points(103), points(40, 7)));
    if (comm.rank() != 0) return;
    outcome = {hash_of(net), result.summary.weights_hash, result.summary.loss, looks->seen, counts->late};
    outcome.seen.insert(outcome.seen.end(), holds->seen.begin(), holds->seen.end());
  });
  return outcome;
}

TEST(TrainNextForward, EvaluationsCallbacksAndTheEndSeeWhatTheyWouldSeeWithout) {
  // Exchanges are slow enough to be under way when a step has returned.
  Recipe recipe{.faults = {.latency = std::chrono::milliseconds(2)}};
  const Outcome usual = train(recipe);
  recipe.next_forward = true;
  const Outcome late = train(recipe);
  EXPECT_EQ(late, usual);
  EXPECT_EQ(usual.finished_late, 0U);
  EXPECT_GT(late.finished_late, 0U) << "nothing was late: the test shows nothing";
}

TEST(TrainNextForward, CallbacksThatHoldTheWeightsSeeThemFinished) {
  Recipe recipe{.holds = true, .faults = {.latency = std::chrono::milliseconds(2)}};
  const Outcome usual = train(recipe);
  recipe.next_forward = true;
  EXPECT_EQ(train(recipe), usual);
}

TEST(TrainNextForward, AccumulatingAndClippingEndWithTheSameBits) {
  for (const double clip : {0.0, 0.5}) {
    Recipe recipe{.options = {.epochs = 2, .batch = 16, .accumulate = 3, .clip_norm = clip}};
    const Outcome usual = train(recipe);
    recipe.next_forward = true;
    EXPECT_EQ(train(recipe), usual) << clip;
  }
}

// A step makes five exchanges: among five consecutive ones some fail after their step has returned.
TEST(TrainNextForward, AFailedLateExchangeNamesItsStep) {
  int late = 0;
  for (std::uint64_t at = 20; at < 25; ++at) {
    Recipe recipe{.next_forward = true, .faults = {.latency = std::chrono::milliseconds(2), .fail_at = at}};
    try {
      train(recipe);
      FAIL() << "expected an error";
    } catch (const std::exception& error) {
      if (std::string(error.what()).find("expected the exchanges of step ") != std::string::npos) ++late;
    }
  }
  EXPECT_GT(late, 0);
}

}  // namespace
}  // namespace starling::train
