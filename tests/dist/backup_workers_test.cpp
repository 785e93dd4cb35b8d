#include "starling/dist/strategy/backup_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "dist/strategy_testing.h"
#include "starling/data/loading/sampler.h"
#include "starling/dist/strategy/allreduce.h"

namespace starling::dist {
namespace {

using namespace std::chrono_literals;
using testing::borrowed;
using testing::counter;
using testing::random_batch;
using testing::SmallTrainer;

testing::MakeStrategy backup(const BackupWorkersOptions& options) {
  return [options](auto comm) { return std::make_shared<BackupWorkers>(std::move(comm), options); };
}

struct Outcome {
  double median_ms = 0;  // median of rank 0's steps
  std::vector<std::vector<int>> contributors;
  std::set<std::string> hashes;
  double closed = 0, contributions = 0, late = 0, skipped = 0;
};

// Trains with steps that take `fast` to compute, and `slow` on the last rank.
Outcome train(const Comms& comms, const BackupWorkersOptions& options, int steps, std::chrono::microseconds fast,
              std::chrono::microseconds slow) {
  Outcome outcome;
  std::mutex mutex;
  run_ranks(comms, [&](Comm& comm) {
    const auto strategy = std::make_shared<BackupWorkers>(borrowed(comm), options);
    SmallTrainer trainer(strategy, {.lr = 0.1, .momentum = 0.9});
    const bool last = comm.rank() == comm.size() - 1;
    trainer.slow = [&](std::int64_t) { std::this_thread::sleep_for(last ? slow : fast); };
    std::vector<double> times;
    for (int s = 0; s < steps; ++s) {
      const CommTime start = CommClock::now();
      trainer.step(random_batch(8, s));
      times.push_back(seconds_since(start) * 1e3);
    }
    comm.barrier().wait();
    const std::scoped_lock lock(mutex);
    outcome.hashes.insert(trainer.hash());
    if (last) outcome.skipped = counter(*strategy, "taken_without_computing");
    if (comm.rank() > 0) return;
    std::sort(times.begin(), times.end());
    outcome.median_ms = times[times.size() / 2];
    for (int s = 0; s < steps; ++s) outcome.contributors.push_back(strategy->contributors(s));
    outcome.closed = counter(*strategy, "closed");
    outcome.contributions = counter(*strategy, "contributions");
    outcome.late = counter(*strategy, "late");
  });
  return outcome;
}

TEST(BackupWorkers, ATenTimesSlowerWorkerLeavesTheMedianStepUnchangedWithOneBackup) {
  // A busy machine lengthens steps of either world: what can be had is shown by the best of a few rounds.
  Outcome even, with;
  for (int round = 0; round < 6 && (round == 0 || with.median_ms - even.median_ms >= 16); ++round) {
    even = train(make_thread_comms(4), {.backups = 1}, 30, 4ms, 4ms);
    with = train(make_thread_comms(4), {.backups = 1}, 30, 4ms, 40ms);
  }
  EXPECT_LT(with.median_ms - even.median_ms, 16) << "an even world: " << even.median_ms;
  EXPECT_GT(with.late + with.skipped, 0);
  EXPECT_GT(with.skipped, 0) << "the slow one catches up by taking closed steps";
}

TEST(BackupWorkers, ControlWithoutBackupsItSlowsEveryStep) {
  const Outcome without = train(make_thread_comms(4), {.backups = 0}, 8, 4ms, 40ms);
  EXPECT_GE(without.median_ms, 39);
  EXPECT_EQ(without.late, 0);
}

TEST(BackupWorkers, EveryStepHasExactlyTheNeededDistinctContributors) {
  const Outcome outcome = train(wrap(make_thread_comms(4), make_checking), {.backups = 1}, 30, 0us, 2ms);
  EXPECT_EQ(outcome.closed, 30);
  EXPECT_EQ(outcome.contributions, 3 * 30);
  for (const auto& who : outcome.contributors) {
    EXPECT_EQ(who.size(), 3u);
    EXPECT_EQ(std::set<int>(who.begin(), who.end()).size(), 3u);
  }
}

TEST(BackupWorkers, AllRanksEndWithTheSameWeights) {
  EXPECT_EQ(train(make_thread_comms(4), {.backups = 2}, 20, 0us, 3ms).hashes.size(), 1u);
}

TEST(BackupWorkers, WithoutBackupsItIsSynchronousSgdWeightedBySamples) {
  const optim::SgdOptions sgd{.lr = 0.1, .momentum = 0.9};
  for (const int world : {1, 3, 8}) {
    const SmallTrainer one = testing::trained_alone(6, 7, sgd);
    testing::train_world(make_thread_comms(world), backup({.backups = 0}), 6, 7, sgd, [&](SmallTrainer& trainer) {
      EXPECT_LE(testing::largest_difference(trainer.w, one.w), 1e-12) << world;
    });
  }
}

// Rank 1 is delayed until the step is closed: the mean covers ranks 0 and 2 alone, over their own samples.
TEST(BackupWorkers, DividesByThoseWhoContributed) {
  const auto comms = make_thread_comms(3);
  std::atomic<bool> closed{false};
  run_ranks(comms, [&](Comm& comm) {
    Tensor w = zeros({1}, DType::f64), g = zeros({1}, DType::f64);
    w.set_name("w").set_requires_grad();
    BackupWorkers strategy(borrowed(comm), {.backups = 1});
    strategy.begin({.weights = {{"w", w}}});
    const double values[] = {1, 100, 5}, weights[] = {3, 7, 1};
    *g.data<double>() = values[comm.rank()];
    const NamedTensor named{"w", g};
    GradientStep step{.step = 0, .weight = weights[comm.rank()], .gradients = {&named, 1}};
    while (comm.rank() == 1 && !closed) std::this_thread::sleep_for(1ms);
    strategy.exchange(step);
    closed = true;
    EXPECT_DOUBLE_EQ(g.item(), (3 * 1 + 1 * 5) / 4.0) << "rank " << comm.rank();
    EXPECT_EQ(step.weight, 4);
    comm.barrier().wait();
    if (comm.rank() == 0) {
      EXPECT_EQ(strategy.contributors(0), (std::vector<int>{0, 2}));
      EXPECT_EQ(counter(strategy, "late"), 1);
      EXPECT_EQ(counter(strategy, "late_samples"), 7);
    }
  });
}

TEST(BackupWorkers, AQuorumIsAShareOfTheWorkers) {
  run_ranks(make_thread_comms(4), [&](Comm& comm) {
    EXPECT_EQ(BackupWorkers(borrowed(comm), {.quorum = 0.75}).needed(), 3);
    EXPECT_EQ(BackupWorkers(borrowed(comm), {.quorum = 0.5}).needed(), 2);
    EXPECT_EQ(BackupWorkers(borrowed(comm), {.quorum = 0.01}).needed(), 1);
    EXPECT_EQ(BackupWorkers(borrowed(comm), {.quorum = 1}).needed(), 4);
    EXPECT_THROW(BackupWorkers(borrowed(comm), {.backups = 4}), Error);
  });
}

// Samples of each epoch that no counted gradient has seen, of 48 in batches of 8, with a slow last worker.
std::vector<std::set<std::int64_t>> lost_samples(int epochs, bool shuffle) {
  constexpr std::int64_t kSamples = 48, kBatch = 8;
  const int steps = static_cast<int>(kSamples / kBatch);
  const Outcome outcome = train(make_thread_comms(4), {.quorum = 0.75}, epochs * steps, 1ms, 20ms);
  std::vector<std::set<std::int64_t>> lost(static_cast<std::size_t>(epochs));
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const data::EpochOrder order({.size = kSamples, .seed = 5, .epoch = epoch, .shuffle = shuffle});
    for (int step = 0; step < steps; ++step) {
      const auto& who = outcome.contributors[static_cast<std::size_t>(epoch * steps + step)];
      for (int rank = 0; rank < 4; ++rank) {
        if (std::count(who.begin(), who.end(), rank) > 0) continue;
        const Piece rows = piece_of(kBatch, rank, 4);
        for (std::int64_t i = 0; i < rows.size; ++i)
          lost[static_cast<std::size_t>(epoch)].insert(order.sample_at(step * kBatch + rows.begin + i));
      }
    }
  }
  return lost;
}

TEST(BackupWorkers, AnEpochClosesWithThreeQuartersAndLosesOtherSamplesInTheNext) {
  const auto lost = lost_samples(2, true);
  for (const auto& one : lost) EXPECT_EQ(one.size(), 12u) << "a quarter of the epoch";
  EXPECT_NE(lost[0], lost[1]);
}

TEST(BackupWorkers, ControlWithoutReshufflingTheSlowWorkersSamplesAreLostAgain) {
  const auto lost = lost_samples(2, false);
  std::vector<std::int64_t> again;
  std::set_intersection(lost[0].begin(), lost[0].end(), lost[1].begin(), lost[1].end(), std::back_inserter(again));
  EXPECT_GE(again.size(), 8u);
}

TEST(BackupWorkers, NoRankRunsFurtherAheadThanTheWindow) {
  const auto comms = make_thread_comms(3);
  std::atomic<std::int64_t> fastest{0}, slowest{0};
  std::atomic<std::int64_t> gap{0};
  run_ranks(comms, [&](Comm& comm) {
    SmallTrainer trainer(
        std::make_shared<BackupWorkers>(borrowed(comm), BackupWorkersOptions{.backups = 1, .window = 2}), {.lr = 0.1});
    if (comm.rank() == 2) trainer.slow = [](std::int64_t) { std::this_thread::sleep_for(20ms); };
    for (int s = 0; s < 12; ++s) {
      trainer.step(random_batch(6, s));
      if (comm.rank() == 1) fastest = s;
      if (comm.rank() == 2) slowest = s;
      if (comm.rank() == 1) gap = std::max<std::int64_t>(gap, fastest - slowest);
    }
    comm.barrier().wait();
    if (comm.rank() == 0) {
      EXPECT_GT(counter(*trainer.strategy, "window_waits"), 0);
    }
  });
  EXPECT_LE(gap, 3);
}

TEST(BackupWorkers, GoesOnFromACheckpointsStep) {
  run_ranks(make_thread_comms(3), [&](Comm& comm) {
    SmallTrainer trainer(std::make_shared<BackupWorkers>(borrowed(comm), BackupWorkersOptions{}), {.lr = 0.1});
    trainer.go_on_at(40);
    for (int s = 0; s < 5; ++s) trainer.step(random_batch(6, s));
    comm.barrier().wait();
    if (comm.rank() == 0) {
      EXPECT_EQ(counter(*trainer.strategy, "closed"), 5);
    }
  });
}

TEST(BackupWorkers, AnErrorOfOneRankEndsAllOfThemSoon) {
  const CommTime start = CommClock::now();
  const auto errors = errors_of(make_thread_comms(3), [&](Comm& comm) {
    try {
      SmallTrainer trainer(std::make_shared<BackupWorkers>(borrowed(comm), BackupWorkersOptions{.backups = 0}),
                           {.lr = 0.1});
      for (int s = 0; s < 5; ++s) {
        if (comm.rank() == 1 && s == 2) fail("[test] rank 1 fails");
        trainer.step(random_batch(6, s));
      }
    } catch (const std::exception& error) {
      comm.abort(error.what());
      throw;
    }
  });
  for (const auto& error : errors) EXPECT_FALSE(error.empty());
  EXPECT_LT(seconds_since(start), kAtOnce);
}

}  // namespace
}  // namespace starling::dist
