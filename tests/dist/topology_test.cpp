#include "starling/dist/strategy/topology.h"

#include <gtest/gtest.h>

#include <numeric>

#include "dist/strategy_testing.h"
#include "starling/data/loading/loader.h"
#include "starling/dist/strategy/easgd.h"
#include "starling/dist/strategy/grouped.h"
#include "starling/dist/strategy/local_sgd.h"

namespace starling::dist {
namespace {

using testing::borrowed;
using testing::counter;
using testing::random_batch;
using testing::SmallTrainer;

TEST(Topology, RanksLieInGroupsOneAfterAnother) {
  const Topology topology{.worker_groups = 2, .workers_per_group = 3, .server_groups = 2, .servers_per_group = 1};
  topology.validate(8);
  for (int rank = 0; rank < 8; ++rank) {
    const auto position = topology.position(rank);
    EXPECT_EQ(topology.rank_of(position), rank);
    EXPECT_EQ(position.server, rank >= 6);
  }
  EXPECT_EQ(topology.position(4).group, 1);
  EXPECT_EQ(topology.position(4).member, 1);
  EXPECT_EQ(topology.position(7).group, 1);
  EXPECT_EQ(topology.describe(), "2 groups of 3 workers and 2 groups of 1 server");
}

std::string refusal(const Topology& topology, std::int64_t world) {
  try {
    topology.validate(world);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Topology, RefusesGroupsThatDoNotFitSayingWhy) {
  EXPECT_TRUE(contains(refusal({.worker_groups = 2, .workers_per_group = 2}, 5),
                       "expected 4 ranks for 2 groups of 2 workers, got 5"));
  EXPECT_TRUE(contains(refusal({.worker_groups = 0}, 0), "at least one group"));
  EXPECT_TRUE(contains(refusal({.server_groups = 1}, 1), "both server_groups and servers_per_group"));
  EXPECT_TRUE(contains(refusal({.server_groups = 2, .servers_per_group = 1}, 3), "at most as many server groups"));
  EXPECT_EQ(refusal({.worker_groups = 2, .workers_per_group = 2}, 4), "");
  EXPECT_THROW((Topology{.worker_groups = 2}.position(2)), Error);
}

std::shared_ptr<Grouped> groups_of_two(Comm& comm, const StrategyMaker& between) {
  return std::make_shared<Grouped>(borrowed(comm), Topology{.worker_groups = 2, .workers_per_group = 2},
                                   AllReduceOptions{}, between);
}
StrategyMaker averaging(std::int64_t every) {
  return [every](auto comm) { return std::make_shared<LocalSgd>(std::move(comm), LocalSgdOptions{.every = every}); };
}

std::vector<std::string> hashes_after(int steps, const StrategyMaker& between) {
  std::vector<std::string> hashes(4);
  run_ranks(wrap(make_thread_comms(4), make_checking), [&](Comm& comm) {
    SmallTrainer trainer(groups_of_two(comm, between), {.lr = 0.1, .momentum = 0.9});
    for (int s = 0; s < steps; ++s) trainer.step(random_batch(11, s));
    hashes[static_cast<std::size_t>(comm.rank())] = trainer.hash();
  });
  return hashes;
}

TEST(Grouped, WeightsAreEqualWithinAGroupAndDifferBetweenGroupsUntilASync) {
  const auto apart = hashes_after(3, averaging(4));
  EXPECT_EQ(apart[0], apart[1]);
  EXPECT_EQ(apart[2], apart[3]);
  EXPECT_NE(apart[0], apart[2]);
  const auto met = hashes_after(4, averaging(4));
  EXPECT_EQ(std::set<std::string>(met.begin(), met.end()).size(), 1u);
}

TEST(Grouped, ElasticGroupsKeepDifferentWeights) {
  const auto between = [](auto comm) { return std::make_shared<Easgd>(std::move(comm), EasgdOptions{.every = 2}); };
  const auto hashes = hashes_after(4, between);
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[2], hashes[3]);
  EXPECT_NE(hashes[0], hashes[2]);
}

// Plain SGD synchronised at every step: both levels together equal synchronous SGD, also with rows that groups or
// members cannot split evenly, and with none for some ranks.
TEST(Grouped, MeetingEveryStepIsSynchronousSgd) {
  for (const std::int64_t rows : {11, 3}) {
    const SmallTrainer one = testing::trained_alone(8, rows, {.lr = 0.2});
    testing::train_world(
        make_thread_comms(4), [](auto comm) { return groups_of_two(*comm, averaging(1)); }, 8, rows, {.lr = 0.2},
        [&](SmallTrainer& trainer) { EXPECT_LE(testing::largest_difference(trainer.w, one.w), 1e-12); });
  }
}

TEST(Grouped, OnlyLeadersSpeakBetweenGroups) {
  run_ranks(make_thread_comms(4), [&](Comm& comm) {
    SmallTrainer trainer(groups_of_two(comm, averaging(2)), {.lr = 0.1});
    for (int s = 0; s < 6; ++s) trainer.step(random_batch(8, s));
    EXPECT_EQ(counter(*trainer.strategy, "handed_on"), 3);
    const auto counters = trainer.strategy->counters();
    const bool speaks = std::any_of(counters.begin(), counters.end(), [](const LawCounter& one) {
      return one.name == "between.syncs" && one.value == 3;
    });
    EXPECT_EQ(speaks, comm.rank() % 2 == 0);
  });
}

TEST(Grouped, LoadersCutBatchesByGroupsFirst) {
  std::vector<double> numbers(22);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  const auto data = std::make_shared<TensorDataset>(std::vector<Tensor>{from_doubles(numbers, {22})});
  run_ranks(make_thread_comms(4), [&](Comm& comm) {
    const auto strategy = groups_of_two(comm, averaging(2));
    LoaderOptions options{.batch = 11, .shuffle = false, .rank = comm.rank(), .ranks = 4};
    options.groups = strategy->groups();
    Loader loader(data, options);
    const Batch* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    const Piece own = strategy->rows(11);
    ASSERT_EQ(batch->fields[0].size(0), own.size);
    if (own.size > 0) {
      EXPECT_EQ(batch->fields[0].to_vector()[0], static_cast<double>(own.begin));
    }
  });
}

TEST(Grouped, RefusesServersAndStrategiesOfGradients) {
  run_ranks(make_thread_comms(2), [&](Comm& comm) {
    EXPECT_THROW(
        Grouped(borrowed(comm), {.worker_groups = 1, .server_groups = 1, .servers_per_group = 1}, {}, averaging(1)),
        Error);
    EXPECT_THROW(
        Grouped(borrowed(comm), {.worker_groups = 2}, {}, [](auto part) { return allreduce(std::move(part)); }), Error);
  });
}

}  // namespace
}  // namespace starling::dist
