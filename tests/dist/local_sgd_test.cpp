#include "starling/dist/strategy/local_sgd.h"

#include <gtest/gtest.h>

#include "dist/strategy_testing.h"

namespace starling::dist {
namespace {

using testing::borrowed;
using testing::counter;
using testing::largest_difference;
using testing::random_batch;
using testing::SmallTrainer;

testing::MakeStrategy local(const LocalSgdOptions& options) {
  return [options](auto comm) { return std::make_shared<LocalSgd>(std::move(comm), options); };
}

// Test bodies take any world of communicators, so that other backends can run them too.
void expect_synchronous_sgd(const Comms& comms, const LocalSgdOptions& options, bool equal) {
  const optim::SgdOptions plain{.lr = 0.2};
  const SmallTrainer one = testing::trained_alone(12, 7, plain);
  testing::train_world(comms, local(options), 12, 7, plain, [&](SmallTrainer& trainer) {
    if (equal) {
      EXPECT_LE(largest_difference(trainer.w, one.w), 1e-12);
    } else {
      EXPECT_GT(largest_difference(trainer.w, one.w), 1e-6);
    }
  });
}

// Seven rows for three ranks: the mean is right only if weighted by samples.
TEST(LocalSgd, AveragingEveryStepIsSynchronousSgd) {
  expect_synchronous_sgd(wrap(make_thread_comms(3), make_checking), {.every = 1}, true);
}
TEST(LocalSgd, RanksWithoutRowsDoNotCount) { expect_synchronous_sgd(make_thread_comms(8), {.every = 1}, true); }
TEST(LocalSgd, ControlAveragingEveryFourStepsIsNotSynchronousSgd) {
  expect_synchronous_sgd(make_thread_comms(3), {.every = 4}, false);
}
TEST(LocalSgd, ControlOuterMomentumIsNotSynchronousSgd) {
  expect_synchronous_sgd(make_thread_comms(3), {.every = 1, .outer_momentum = 0.5}, false);
}

// Moments that are set to 0 after an average have nothing to be averaged for.
TEST(LocalSgd, RefusesToAverageMomentsThatItSetsToZero) {
  run_ranks(make_thread_comms(1), [&](Comm& comm) {
    EXPECT_THROW(LocalSgd(borrowed(comm), {.average_optimizer = true, .reset_optimizer = true}), Error);
    EXPECT_NO_THROW(LocalSgd(borrowed(comm), {.average_optimizer = true}));
    EXPECT_NO_THROW(LocalSgd(borrowed(comm), {.reset_optimizer = true}));
  });
}

std::set<std::string> hashes_after(const Comms& comms, int steps, std::int64_t every) {
  std::set<std::string> hashes;
  testing::train_world(comms, local({.every = every}), steps, 6, {.lr = 0.1, .momentum = 0.9},
                       [&](SmallTrainer& trainer) { hashes.insert(trainer.hash()); });
  return hashes;
}

TEST(LocalSgd, ReplicasAreEqualRightAfterASyncAndDifferBeforeIt) {
  EXPECT_EQ(hashes_after(make_thread_comms(3), 8, 4).size(), 1u);
  EXPECT_EQ(hashes_after(make_thread_comms(3), 7, 4).size(), 3u);
}

TEST(LocalSgd, SettlingMakesOneModelAndCountsAsASync) {
  std::set<std::string> hashes;
  const auto comms = make_thread_comms(3);
  std::mutex mutex;
  run_ranks(comms, [&](Comm& comm) {
    SmallTrainer trainer(std::make_shared<LocalSgd>(borrowed(comm), LocalSgdOptions{.every = 100}), {.lr = 0.1});
    for (int s = 0; s < 5; ++s) trainer.step(random_batch(6, s));
    trainer.strategy->settle();
    trainer.strategy->settle();  // no rank has changed: a no-op
    EXPECT_EQ(counter(*trainer.strategy, "syncs"), 1);
    const std::scoped_lock lock(mutex);
    hashes.insert(trainer.hash());
  });
  EXPECT_EQ(hashes.size(), 1u);
}

// Bytes sent by all-reduces in 24 steps, without those that begin a run.
double bytes_sent(std::int64_t every) {
  double bytes = 0;
  testing::train_world(make_thread_comms(2), local({.every = every}), 24, 6, {.lr = 0.1}, [&](SmallTrainer& trainer) {
    const LocalSgd& strategy = dynamic_cast<LocalSgd&>(*trainer.strategy);
    EXPECT_EQ(counter(strategy, "syncs"), static_cast<double>(24 / every));
    EXPECT_EQ(counter(strategy, "averaged_bytes"), 2 * static_cast<double>(24 / every) * (5 * 2 + 2 + 1) * 8)
        << "weights and the number of samples, in both directions";
    bytes = static_cast<double>(strategy.comm().journal().counters(CommOp::all_reduce).bytes_sent);
  });
  return bytes;
}

TEST(LocalSgd, BytesFallAsOneByTheStepsBetweenSyncs) {
  const double every_step = bytes_sent(1);
  EXPECT_GT(every_step, 0);
  EXPECT_EQ(bytes_sent(2) * 2, every_step);
  EXPECT_EQ(bytes_sent(8) * 8, every_step);
  EXPECT_EQ(bytes_sent(24) * 24, every_step);
}

// Hashes of the optimizer's velocities, which are averaged on request.
std::set<std::string> velocities(bool average) {
  std::set<std::string> hashes;
  testing::train_world(make_thread_comms(2), local({.every = 4, .average_optimizer = average}), 8, 6,
                       {.lr = 0.1, .momentum = 0.9}, [&](SmallTrainer& trainer) {
                         std::vector<NamedTensor> state;
                         for (const auto& [name, tensor] : trainer.optimizer.state()) state.push_back({name, tensor});
                         hashes.insert(train::weights_hash(state));
                         EXPECT_EQ(trainer.strategy->settled(), average);
                         EXPECT_EQ(static_cast<float>(trainer.optimizer.lr()), 0.1f);
                       });
  return hashes;
}

TEST(LocalSgd, OptimizerStateIsAveragedByChoice) {
  EXPECT_EQ(velocities(true).size(), 1u);
  EXPECT_EQ(velocities(false).size(), 2u);
}

// One parameter that moves by a known amount per step: outer descent in closed form.
TEST(LocalSgd, OuterMomentumIsNesterovOnTheDifference) {
  for (const bool nesterov : {true, false}) {
    const double lr = 0.7, momentum = 0.6;
    run_ranks(make_thread_comms(2), [&](Comm& comm) {
      Tensor w = zeros({1}, DType::f64);
      w.set_name("w").set_requires_grad();
      LocalSgd strategy(borrowed(comm),
                        {.every = 3, .outer_lr = lr, .outer_momentum = momentum, .outer_nesterov = nesterov});
      strategy.begin({.weights = {{"w", w}}});
      double anchor = 0, velocity = 0;
      std::int64_t step = 0;
      for (int round = 0; round < 4; ++round) {
        for (int i = 0; i < 3; ++i) {
          *w.data<double>() -= comm.rank() == 0 ? 1.0 : 2.0;  // three samples and one: the mean moves by 1.25
          strategy.after_update(step++, comm.rank() == 0 ? 3 : 1);
        }
        const double difference = 3 * 1.25;
        velocity = momentum * velocity + difference;
        anchor -= lr * (nesterov ? difference + momentum * velocity : velocity);
        EXPECT_NEAR(w.item(), anchor, 1e-12) << "round " << round;
      }
    });
  }
}

// A run that stops between two syncs and resumes from a checkpoint ends like the uninterrupted one.
TEST(LocalSgd, GoesOnFromACheckpointBetweenSyncs) {
  const optim::SgdOptions sgd{.lr = 0.1, .momentum = 0.9};
  const LocalSgdOptions options{.every = 4, .outer_momentum = 0.5};
  run_ranks(make_thread_comms(2), [&](Comm& comm) {
    const auto make = [&] { return std::make_shared<LocalSgd>(borrowed(comm), options); };
    const auto all_of = [](SmallTrainer& trainer) {
      TrainedState state = trainer.state();
      std::vector<NamedTensor> all = state.weights;
      all.insert(all.end(), state.optimizer.begin(), state.optimizer.end());
      for (const auto& one : trainer.strategy->tensors()) all.push_back(one);
      return all;
    };
    SmallTrainer whole(make(), sgd), first(make(), sgd);
    for (int s = 0; s < 12; ++s) whole.step(random_batch(7, s));
    for (int s = 0; s < 6; ++s) first.step(random_batch(7, s));
    EXPECT_FALSE(first.strategy->settled());
    SmallTrainer second(make(), sgd, 50);
    const auto from = all_of(first), into = all_of(second);
    ASSERT_EQ(from.size(), into.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(from[i].name, into[i].name);
      copy_into(into[i].tensor, from[i].tensor);
    }
    second.go_on_at(6);
    for (int s = 6; s < 12; ++s) second.step(random_batch(7, s));
    EXPECT_EQ(second.hash(), whole.hash());
  });
}

TEST(LocalSgd, RefusesNoStepsBetweenSyncs) {
  run_ranks(make_thread_comms(1), [&](Comm& comm) { EXPECT_THROW(LocalSgd(borrowed(comm), {.every = 0}), Error); });
}

}  // namespace
}  // namespace starling::dist
