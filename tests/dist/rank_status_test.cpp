// Detection of ranks that wait in vain, from the states that ranks report.
#include "starling/dist/comm/rank_status.h"

#include <gtest/gtest.h>

#include "starling/dist/comm/journal.h"

namespace starling::dist {
namespace {

using State = RankStatus::State;

// State of one of three ranks after `collectives` collectives.
RankStatus at(State state, std::uint64_t collectives) {
  return {.state = state, .collectives = collectives, .sent = {0, 0, 0}, .received = {0, 0, 0}};
}

RankStatus waits(CommOp op, std::uint64_t sequence, std::uint64_t collectives, int peer = -1) {
  RankStatus s = at(State::waiting, collectives);
  s.call.op = op;
  s.call.sequence = sequence;
  s.peer = peer;
  return s;
}

TEST(RankStatuses, WaitingForALateRankIsNoDeadlock) {
  const RankStatus a = waits(CommOp::barrier, 5, 5);
  EXPECT_TRUE(hopeless(std::vector{a, a, RankStatus{}}).empty());
  EXPECT_TRUE(hopeless(std::vector{a, a, waits(CommOp::barrier, 4, 4)}).empty()) << "what it told before it went on";
  EXPECT_TRUE(hopeless(std::vector{a, a, a}).empty()) << "all have arrived";
}

TEST(RankStatuses, WaitingForARankThatLeftIsADeadlock) {
  const RankStatus a = waits(CommOp::barrier, 5, 5);
  EXPECT_EQ(hopeless(std::vector{a, RankStatus{}, at(State::left, 4)}), std::vector<int>{0});
  EXPECT_TRUE(hopeless(std::vector{a, RankStatus{}, at(State::left, 5)}).empty()) << "it took part before it left";
  EXPECT_EQ(hopeless(std::vector{waits(CommOp::recv, 1, 5, 2), RankStatus{}, at(State::left, 9)}), std::vector<int>{0});
}

TEST(RankStatuses, ACycleOfWaitsIsADeadlockAndSoIsWaitingForIt) {
  std::vector<RankStatus> all{waits(CommOp::recv, 1, 4, 1), waits(CommOp::recv, 1, 4, 0), waits(CommOp::barrier, 5, 5)};
  EXPECT_EQ(hopeless(all), (std::vector<int>{0, 1, 2}));
  all[1].sent[0] = 1;  // rank 0's message is in flight, and everything behind it follows
  EXPECT_TRUE(hopeless(all).empty());
}

TEST(RankStatuses, AMessageIsMatchedByBothSidesOfItsPair) {
  std::vector<RankStatus> all{waits(CommOp::send, 3, 4, 1), waits(CommOp::barrier, 5, 5), RankStatus{}};
  EXPECT_FALSE(lacks(all, 2, 0)) << "no part of the pair";
  all[1].received[0] = 2;
  EXPECT_TRUE(lacks(all, 1, 0));
  all[1].received[0] = 3;
  EXPECT_FALSE(lacks(all, 1, 0));
}

TEST(RankStatuses, TravelAsBytesAndRefuseNonsense) {
  RankStatus sent = waits(CommOp::send, 3, 4, 1);
  sent.sent = {7, 8, 9};
  sent.received = {1, 2, 3};
  sent.call.count = 12;
  std::vector<std::byte> bytes(rank_status_bytes(3));
  write_rank_status(sent, bytes);
  const RankStatus got = read_rank_status(bytes, 3);
  EXPECT_EQ(got.state, State::waiting);
  EXPECT_EQ(got.peer, 1);
  EXPECT_EQ(got.collectives, 4u);
  EXPECT_EQ(got.sent, sent.sent);
  EXPECT_EQ(got.received, sent.received);
  EXPECT_TRUE(got.call.agrees_with(sent.call));
  EXPECT_EQ(read_rank_status(std::span(bytes).first(bytes.size() - 1), 3).state, State::unknown);
  for (std::byte& b : bytes) b = std::byte{0xff};
  EXPECT_EQ(read_rank_status(bytes, 3).state, State::unknown);
}

}  // namespace
}  // namespace starling::dist
