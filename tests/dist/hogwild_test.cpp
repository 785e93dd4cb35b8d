#include "starling/dist/strategy/hogwild.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "dist/strategy_testing.h"
#include "starling/optim/adam.h"

namespace starling::dist {
namespace {

using testing::borrowed;
using testing::counter;
using testing::random_batch;
using testing::SmallTrainer;

// Two threads add 1 to the same weight many times. The probe holds each between its load and its store until the other
// has loaded too, or has finished: an interleaving that a scheduler would give only rarely.
struct Meeting {
  std::atomic<int> loaded{0};
  static void between(void* context) {
    auto& meeting = *static_cast<Meeting*>(context);
    const int mine = ++meeting.loaded;
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (meeting.loaded < mine + 1 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }
};

double sum_of_two_writers(bool atomic, bool probed) {
  double w = 0;
  const double g = -1;
  Meeting meeting;
  RacySgd how{.lr = 1, .atomic = atomic};
  if (probed) how.probe = {Meeting::between, &meeting};
  std::latch both(2);
  {
    std::vector<std::jthread> writers;
    for (int t = 0; t < 2; ++t)
      writers.emplace_back([&] {
        both.arrive_and_wait();
        for (int i = 0; i < 50; ++i) racy_sgd(how, DType::f64, 1, &w, nullptr, &g);
      });
  }
  return w;
}

TEST(RacyUpdate, AProbeBetweenLoadAndStoreSeesUpdatesLost) { EXPECT_LT(sum_of_two_writers(false, true), 100); }
TEST(RacyUpdate, ControlTheAtomicModeLosesNone) {
  EXPECT_EQ(sum_of_two_writers(true, true), 100);
  EXPECT_EQ(sum_of_two_writers(true, false), 100);
}

// Without concurrency it is the optimizer's update, in both modes.
TEST(RacyUpdate, WithoutConcurrencyEqualsTheOptimizersUpdate) {
  for (const bool atomic : {false, true}) {
    for (const bool nesterov : {false, true}) {
      const optim::SgdOptions sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = nesterov};
      const SmallTrainer one = testing::trained_alone(10, 7, sgd);
      testing::train_world(
          make_thread_comms(1),
          [&](auto comm) { return std::make_shared<Hogwild>(std::move(comm), HogwildOptions{.atomic = atomic}); }, 10,
          7, sgd,
          [&](SmallTrainer& trainer) {
            EXPECT_LE(testing::largest_difference(trainer.w, one.w), 1e-12);
            EXPECT_LE(testing::largest_difference(trainer.b, one.b), 1e-12);
          });
    }
  }
}

TEST(RacyUpdate, RefusesDtypesThatCannotBeStoredAtomically) {
  float x[1] = {0};
  EXPECT_THROW(racy_sgd({}, DType::bf16, 1, x, nullptr, x), Error);
}

TEST(Hogwild, AllRanksShareOneMemoryAndSendNothing) {
  std::set<const void*> addresses;
  std::set<std::string> hashes;
  std::mutex mutex;
  run_ranks(make_thread_comms(3), [&](Comm& comm) {
    const auto strategy = std::make_shared<Hogwild>(borrowed(comm), HogwildOptions{});
    SmallTrainer trainer(strategy, {.lr = 0.05, .momentum = 0.5}, 3 + comm.rank());
    for (int s = 0; s < 20; ++s) trainer.step(random_batch(9, s));
    EXPECT_EQ(counter(*strategy, "updates"), 20);
    EXPECT_EQ(counter(*strategy, "bytes_sent"), 0);
    strategy->settle();
    for (const auto& [name, tensor] : trainer.optimizer.state())
      EXPECT_EQ(strategy->memory().holds(tensor), name != "sgd.lr") << name;
    const std::scoped_lock lock(mutex);
    addresses.insert(trainer.w.raw());
    hashes.insert(trainer.hash());
  });
  EXPECT_EQ(addresses.size(), 1u);
  EXPECT_EQ(hashes.size(), 1u);
}

// Rank 0 is held between load and store until rank 1 has made fifty updates of the same weights: with any lock, rank 1
// would wait.
TEST(Hogwild, ARankInTheMiddleOfAnUpdateKeepsNobodyWaiting) {
  struct Shared {
    std::atomic<int> updates{0};
    std::atomic<bool> entered{false}, in_time{false};
    static void between(void* context) {
      auto& shared = *static_cast<Shared*>(context);
      if (thread_rank() != 0 || shared.entered.exchange(true)) return;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (shared.updates < 50 && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      shared.in_time = shared.updates >= 50;
    }
  };
  for (const bool atomic : {false, true}) {
    Shared shared;
    run_ranks(make_thread_comms(2), [&](Comm& comm) {
      const HogwildOptions options{.atomic = atomic, .probe = {Shared::between, &shared}};
      SmallTrainer trainer(std::make_shared<Hogwild>(borrowed(comm), options), {.lr = 0.01});
      while (comm.rank() == 1 && !shared.entered) std::this_thread::yield();
      for (int s = 0; s < (comm.rank() == 0 ? 1 : 50); ++s) {
        trainer.step(random_batch(6, s));
        if (comm.rank() == 1) ++shared.updates;
      }
      trainer.strategy->settle();
    });
    EXPECT_TRUE(shared.in_time) << (atomic ? "atomic" : "racy");
  }
}

// Each rank's rows touch different weights, as in sparse problems: nothing is lost although nobody waits.
TEST(Hogwild, ASparseProblemMakesProgressWithAllThreads) {
  constexpr std::int64_t kWeights = 64;
  const auto comms = make_thread_comms(4);
  run_ranks(comms, [&](Comm& comm) {
    Tensor w = zeros({kWeights}, DType::f64);
    w.set_name("w").set_requires_grad();
    optim::Sgd sgd({w}, {.lr = 0.125});
    Hogwild strategy(borrowed(comm), {});
    TrainedState state{.weights = {{"w", w}}, .rule = &sgd};
    for (const auto& [name, tensor] : sgd.state()) state.optimizer.push_back({name, tensor});
    strategy.begin(state);
    Tensor g = zeros({kWeights}, DType::f64);
    const NamedTensor named{"w", g};
    for (std::int64_t s = 0; s < 400; ++s) {
      const std::int64_t at = comm.rank() + 4 * (s % (kWeights / 4));  // the gradient of (w[at] - 1)² / 2
      g.data<double>()[at] = w.data<double>()[at] - 1;
      GradientStep step{.step = s, .weight = 1, .gradients = {&named, 1}};
      strategy.exchange(step);
      g.data<double>()[at] = 0;
    }
    EXPECT_EQ(counter(strategy, "elements_written"),
              400);  // one each: zeros are not written
    strategy.settle();
    for (const double value : w.to_vector()) EXPECT_NEAR(value, 1 - std::pow(0.875, 25), 1e-9);
  });
}

TEST(Hogwild, LearnsADenseProblemToo) {
  const auto data = random_batch(60, 9);
  run_ranks(make_thread_comms(3), [&](Comm& comm) {
    SmallTrainer trainer(std::make_shared<Hogwild>(borrowed(comm), HogwildOptions{}), {.lr = 0.05});
    const double before = trainer.loss(data.x, data.y).item();
    comm.barrier().wait();
    for (int s = 0; s < 100; ++s) trainer.step(data);
    trainer.strategy->settle();
    EXPECT_LT(trainer.loss(data.x, data.y).item(), 0.7 * before);
  });
}

TEST(Hogwild, RefusesOptimizersWhoseUpdateItDoesNotKnow) {
  const auto errors = errors_of(make_thread_comms(1), [&](Comm& comm) {
    Tensor w = zeros({2});
    w.set_name("w").set_requires_grad();
    optim::Adam adam({w});
    Hogwild strategy(borrowed(comm), {});
    strategy.begin({.weights = {{"w", w}}, .rule = &adam});
  });
  EXPECT_TRUE(contains(errors[0], "expected the optimizer sgd"));
}

}  // namespace
}  // namespace starling::dist
