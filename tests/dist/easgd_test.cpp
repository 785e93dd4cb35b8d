#include "starling/dist/strategy/easgd.h"

#include <gtest/gtest.h>

#include <thread>

#include "dist/strategy_testing.h"

namespace starling::dist {
namespace {

using testing::borrowed;
using testing::counter;
using testing::random_batch;
using testing::SmallTrainer;

// Sums over ranks' weights and the centre, before and after steps without learning.
struct Sums {
  double before = 0, after = 0;                // sum of all weights and the centre
  double spread_before = 0, spread_after = 0;  // spread of the ranks around their mean
  double pulls = 0;
};

double total(const SmallTrainer& trainer) {
  double sum = 0;
  for (const auto& [name, tensor] : trainer.weights()) {
    for (const double value : tensor.to_vector()) sum += value;
  }
  return sum;
}

double total(const std::vector<Tensor>& centre) {
  double sum = 0;
  for (const auto& tensor : centre) {
    for (const double value : tensor.to_vector()) sum += value;
  }
  return sum;
}

Sums meetings_without_learning(const Comms& comms, const EasgdOptions& options, int steps, bool one_sided = false) {
  Sums sums;
  std::mutex mutex;
  std::vector<double> start(comms.size()), end(comms.size());
  run_ranks(comms, [&](Comm& comm) {
    const auto strategy = std::make_shared<Easgd>(borrowed(comm), options);
    SmallTrainer trainer(strategy, {.lr = 0});
    const auto own = static_cast<std::size_t>(comm.rank());
    // Moves ranks apart from each other and from the centre, as training would.
    for (std::int64_t i = 0; i < 10; ++i) trainer.w.data<double>()[i] += 1.5 * static_cast<double>(comm.rank() + 1);
    {
      const std::scoped_lock lock(mutex);
      start[own] = total(trainer);
      sums.before += start[own] + (comm.rank() == 0 ? total(strategy->centre()) : 0);
    }
    comm.barrier().wait();
    for (int s = 0; s < steps; ++s) trainer.step(random_batch(6, s));
    if (one_sided && comm.rank() == 1) trainer.w.data<double>()[0] -= 1;
    comm.barrier().wait();
    const std::scoped_lock lock(mutex);
    end[own] = total(trainer);
    sums.after += end[own] + (comm.rank() == 0 ? total(strategy->centre()) : 0);
    if (comm.rank() == 0 && options.asynchronous) sums.pulls = counter(*strategy, "pulls_on_centre");
    EXPECT_EQ(counter(*strategy, "meetings"), static_cast<double>(steps / options.every));
  });
  const auto spread = [](const std::vector<double>& values) {
    return *std::max_element(values.begin(), values.end()) - *std::min_element(values.begin(), values.end());
  };
  sums.spread_before = spread(start);
  sums.spread_after = spread(end);
  return sums;
}

TEST(Easgd, WithoutLearningTheSumOfAllWeightsAndTheCentreStays) {
  for (const bool asynchronous : {false, true}) {
    const Sums sums = meetings_without_learning(wrap(make_thread_comms(3), make_checking),
                                                {.every = 2, .alpha = 0.3, .asynchronous = asynchronous}, 10);
    EXPECT_NEAR(sums.after, sums.before, 1e-10) << asynchronous;
    // Ranks are drawn together; how far depends on their order.
    EXPECT_LT(sums.spread_after, (asynchronous ? 1.0 : 0.5) * sums.spread_before);
    if (asynchronous) {
      EXPECT_EQ(sums.pulls, 3 * 5);
    }
  }
}

TEST(Easgd, ControlWithoutSyncsRanksStayApart) {
  const Sums sums = meetings_without_learning(make_thread_comms(3), {.every = 100, .alpha = 0.3}, 10);
  EXPECT_EQ(sums.spread_after, sums.spread_before);
}

// The conserved sum needs both sides to move: the check notices if only one does.
TEST(Easgd, ControlAChangeOnOneSideBreaksTheLaw) {
  const Sums sums = meetings_without_learning(make_thread_comms(3), {.every = 2, .alpha = 0.3}, 10, true);
  EXPECT_GT(std::abs(sums.after - sums.before), 0.5);
}

// Two ranks, one number: x0 = 1, x1 = 3, centre 0.
TEST(Easgd, OneSyncFollowsTheFormula) {
  run_ranks(make_thread_comms(2), [&](Comm& comm) {
    Tensor w = zeros({1}, DType::f64);
    w.set_name("w").set_requires_grad();
    Easgd strategy(borrowed(comm), {.every = 1, .alpha = 0.25});
    strategy.begin({.weights = {{"w", w}}});
    *w.data<double>() = comm.rank() == 0 ? 1 : 3;
    strategy.after_update(0, 1);
    EXPECT_DOUBLE_EQ(w.item(), comm.rank() == 0 ? 0.75 : 2.25);
    EXPECT_DOUBLE_EQ(strategy.centre()[0].item(), 0.25 + 0.75);
    strategy.settle();
    EXPECT_DOUBLE_EQ(w.item(), 1);
  });
}

// Bytes of pulls that each of 2 ranks counts, for one weight of so many values.
std::vector<double> pulled(std::int64_t values, int meetings, bool asynchronous) {
  std::vector<double> counted(2);
  run_ranks(make_thread_comms(2), [&](Comm& comm) {
    Tensor w = zeros({values}, DType::f64);
    w.set_name("w").set_requires_grad();
    Easgd strategy(borrowed(comm), {.every = 2, .asynchronous = asynchronous});
    strategy.begin({.weights = {{"w", w}}});
    for (int step = 0; step < 2 * meetings; ++step) strategy.after_update(step, 1);
    counted[static_cast<std::size_t>(comm.rank())] = counter(strategy, "elastic_bytes");
  });
  return counted;
}

// The weights go to the centre and the pull comes back; the centre's own rank sends nothing.
TEST(Easgd, CountsTheBytesOfPullsInBothDirections) {
  constexpr std::int64_t kValues = 10'000;
  constexpr int kMeetings = 5;
  const double weights = kValues * 8.0 * kMeetings;
  const auto alone = pulled(kValues, kMeetings, true);
  EXPECT_EQ(alone[0], 0);
  EXPECT_NEAR(alone[1], 2 * weights, 0.01 * weights);
  for (const double bytes : pulled(kValues, kMeetings, false)) EXPECT_NEAR(bytes, 2 * weights, 0.01 * weights);
}

TEST(Easgd, LearnsAndEndsWithOneModel) {
  for (const bool asynchronous : {false, true}) {
    std::set<std::string> hashes;
    std::mutex mutex;
    const auto data = random_batch(60, 9);
    run_ranks(make_thread_comms(3), [&](Comm& comm) {
      SmallTrainer trainer(
          std::make_shared<Easgd>(borrowed(comm), EasgdOptions{.every = 3, .asynchronous = asynchronous}), {.lr = 0.2});
      const double before = trainer.loss(data.x, data.y).item();
      for (int s = 0; s < 60; ++s) trainer.step(data);
      EXPECT_FALSE(trainer.strategy->settled());
      trainer.strategy->settle();
      EXPECT_LT(trainer.loss(data.x, data.y).item(), 0.7 * before);
      const std::scoped_lock lock(mutex);
      hashes.insert(trainer.hash());
    });
    EXPECT_EQ(hashes.size(), 1u);
  }
}

// One worker sleeps before each step: the others do not wait for it, unless all meet at once.
double fast_ranks_take(bool asynchronous) {
  double seconds = 0;
  run_ranks(make_thread_comms(3), [&](Comm& comm) {
    SmallTrainer trainer(
        std::make_shared<Easgd>(borrowed(comm), EasgdOptions{.every = 1, .alpha = 0.1, .asynchronous = asynchronous}),
        {.lr = 0.1});
    if (comm.rank() == 2)
      trainer.slow = [](std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
    trainer.step(random_batch(6, 0));  // first step compiles
    comm.barrier().wait();
    const CommTime start = CommClock::now();
    for (int s = 0; s < 10; ++s) trainer.step(random_batch(6, s));
    if (comm.rank() == 1) seconds = seconds_since(start);
    comm.barrier().wait();
  });
  return seconds;
}

// Label: waits
TEST(Easgd, ASlowWorkerDoesNotSlowOthersThatMeetTheCentreAlone) {
  double best = 1e9;  // of a few tries: a busy machine lengthens any
  for (int i = 0; i < 6 && best >= 0.45; ++i) best = std::min(best, fast_ranks_take(true));
  EXPECT_LT(best, 0.45) << "the slow one sleeps for 0.6 s";
  EXPECT_GE(fast_ranks_take(false), 0.59);
}

TEST(Easgd, CheckpointsHoldTheCentreWhereItLives) {
  run_ranks(make_thread_comms(2), [&](Comm& comm) {
    SmallTrainer trainer(std::make_shared<Easgd>(borrowed(comm), EasgdOptions{.asynchronous = true}), {.lr = 0.1});
    EXPECT_EQ(trainer.strategy->tensors().size(), comm.rank() == 0 ? 1u : 0u);
    SmallTrainer other(std::make_shared<Easgd>(borrowed(comm), EasgdOptions{}), {.lr = 0.1});
    ASSERT_EQ(other.strategy->tensors().size(), 1u);
    EXPECT_EQ(other.strategy->tensors()[0].name, "easgd.centre.f64");
  });
}

TEST(Easgd, RefusesAnAlphaThatMakesTheCentreOscillate) {
  run_ranks(make_thread_comms(3), [&](Comm& comm) { EXPECT_THROW(Easgd(borrowed(comm), {.alpha = 0.5}), Error); });
}

}  // namespace
}  // namespace starling::dist
