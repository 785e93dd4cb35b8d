#include "starling/dist/strategy/fork_join.h"

#include <gtest/gtest.h>

#include <thread>

#include "dist/strategy_testing.h"

namespace starling::dist {
namespace {

using testing::borrowed;
using testing::counter;
using testing::random_batch;
using testing::SmallTrainer;

// Four ranks, two nodes: hashes of all ranks after so many steps, told in rank order.
std::vector<std::string> hashes_after(int steps, std::int64_t nodes) {
  std::vector<std::string> all(4);
  run_ranks(make_thread_comms(4), [&](Comm& comm) {
    SmallTrainer trainer(std::make_shared<ForkJoin>(borrowed(comm), ForkJoinOptions{.nodes = nodes, .every = 4}),
                         {.lr = 0.05});
    for (int s = 0; s < steps; ++s) trainer.step(random_batch(12, s));
    comm.barrier().wait();
    all[static_cast<std::size_t>(comm.rank())] = trainer.hash();
    EXPECT_EQ(counter(*trainer.strategy, "inside.bytes_sent"), 0) << "inside a node nothing is sent";
    if (counter(*trainer.strategy, "inside.updates") != steps) ADD_FAILURE() << "each rank makes every step";
    comm.barrier().wait();
    if (comm.rank() % (4 / nodes) != 0) return;
    EXPECT_EQ(counter(*trainer.strategy, "between.syncs"), nodes > 1 ? steps / 4 : 0);
    const auto sent = trainer.strategy->exchanged(CommOp::all_reduce).bytes_sent;
    EXPECT_EQ(sent > 0, nodes > 1 && steps >= 4) << "averages go between nodes";
  });
  return all;
}

TEST(ForkJoin, NodesShareWeightsInsideAndAreEqualAfterAnAverageOnly) {
  const auto before = hashes_after(3, 2), after = hashes_after(8, 2);
  EXPECT_EQ(before[0], before[1]);
  EXPECT_EQ(before[2], before[3]);
  EXPECT_NE(before[0], before[2]) << "control: before they meet";
  EXPECT_EQ(std::set<std::string>(after.begin(), after.end()).size(), 1U);
}

TEST(ForkJoin, ControlOfOneNodeIsHogwildAndSendsNothing) {
  const auto hashes = hashes_after(8, 1);
  EXPECT_EQ(std::set<std::string>(hashes.begin(), hashes.end()).size(), 1U);
}

// The node's mean counts as much as the samples that all its ranks have seen; a weight each rank moves by itself.
TEST(ForkJoin, AveragesByTheSamplesOfWholeNodes) {
  run_ranks(make_thread_comms(4), [&](Comm& comm) {
    Tensor w = zeros({1}, DType::f64);
    w.set_name("w").set_requires_grad();
    optim::Sgd sgd({w}, {.lr = 1});
    ForkJoin strategy(borrowed(comm), {.nodes = 2, .every = 2});
    strategy.begin({.weights = {{"w", w}}, .rule = &sgd});
    for (int step = 0; step < 2; ++step) {
      if (comm.rank() % 2 == 1) *w.data<double>() += comm.rank() == 1 ? 2 : 5;  // nodes at 4 and 10
      strategy.after_update(step, comm.rank() + 1);                             // 3 and 7 samples a step
    }
    EXPECT_NEAR(w.item(), 0.3 * 4 + 0.7 * 10, 1e-12);
    comm.barrier().wait();
    if (comm.rank() == 0) *w.data<double>() = 1;
    if (comm.rank() == 2) *w.data<double>() = 3;
    comm.barrier().wait();
    strategy.after_update(2, comm.rank() % 2 == 1 ? 1 : 0);  // by others than the first
    strategy.settle();
    EXPECT_NEAR(w.item(), 2, 1e-12) << "equal samples";
  });
}

TEST(ForkJoin, RefusesNodesOfUnequalSize) {
  run_ranks(make_thread_comms(3), [&](Comm& comm) { EXPECT_THROW(ForkJoin(borrowed(comm), {.nodes = 2}), Error); });
}

}  // namespace
}  // namespace starling::dist
