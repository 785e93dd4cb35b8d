#include <gtest/gtest.h>

#include "dist/comm_worlds.h"
#include "starling/dist/comm/faulty/faulty_comm.h"
#include "starling/dist/comm/probe.h"

namespace starling::dist {
namespace {

TEST(CommProbe, MeasuresEveryPairAndEverySizeAndAllRanksAgree) {
  const Comms comms = make_thread_comms(3);
  std::vector<CommProbe> found(3);
  run_ranks(comms, [&](Comm& comm) {
    found[static_cast<std::size_t>(comm.rank())] = probe(comm, {.pair_bytes = {4096}, .reduce_bytes = {4, 65536}});
  });
  ASSERT_EQ(found[0].pairs.size(), 3);
  EXPECT_EQ(found[0].pairs[2].first, 1);
  EXPECT_EQ(found[0].pairs[2].second, 2);
  ASSERT_EQ(found[0].reduces.size(), 2);
  for (const auto& pair : found[0].pairs) {
    EXPECT_GT(pair.latency, 0);
    ASSERT_EQ(pair.transfer.size(), 1);
    EXPECT_GT(pair.transfer[0], 0);
  }
  for (const auto& reduce : found[0].reduces) EXPECT_GT(reduce.seconds, 0);
  for (const auto& other : found) {
    EXPECT_EQ(other.pairs[1].latency, found[0].pairs[1].latency);
    EXPECT_EQ(other.reduces[1].seconds, found[0].reduces[1].seconds);
  }
}

TEST(CommProbe, ManyRanksAreMeasuredBetweenNeighbours) {
  const Comms comms = make_thread_comms(4);
  run_ranks(comms, [&](Comm& comm) {
    const CommProbe found = probe(comm, {.pair_bytes = {}, .reduce_bytes = {}, .most_pairs = 3});
    ASSERT_EQ(found.pairs.size(), 3);
    EXPECT_EQ(found.pairs[2].second, 3);
  });
}

TEST(CommProbe, AWorldOfOneHasNoPairs) {
  const Comms comms = make_thread_comms(1);
  EXPECT_TRUE(probe(*comms[0], {.reduce_bytes = {4}}).pairs.empty());
}

}  // namespace
}  // namespace starling::dist
