// Heartbeats of ranks that something other than `starling launch` started: the rendezvous is a thread of rank 0.
#include "starling/dist/launch/heartbeats/heartbeat_sender.h"

#include <gtest/gtest.h>

#include "dist/comm_worlds.h"
#include "dist/rank_processes.h"
#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store/store_server.h"
#include "starling/dist/launch/store/tcp_store.h"
#include "starling/dist/launch/world.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{30'000};

std::string free_address() {
  const auto listener = listen_on(HostPort{"127.0.0.1", 0});
  return HostPort{"127.0.0.1", local_address(*listener).port()}.text();
}

World join(int rank, const std::string& address, milliseconds heartbeat) {
  return join_world({.rank = rank, .world = 3, .address = address}, {.join_deadline = kLong, .heartbeat = heartbeat});
}

// Label: waits
TEST(HeartbeatSender, AStoppedRankIsNamedByAllOthersWhoeverServesTheRendezvous) {
  for (int victim = 0; victim < 2; ++victim) {
    const std::string address = free_address();
    RankProcesses ranks(3);
    ranks.start_all([&](int rank) -> std::string {
      const World world = join(rank, address, milliseconds(400));
      world.comm->barrier().wait();
      world.report_step(3);
      if (rank == victim) raise(SIGSTOP);  // maybe before the rendezvous has answered a beat
      const auto part = world.comm->split(rank == victim ? 0 : rank, 0);  // errors of groups name ranks of the world
      return "went on";
    });
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      ASSERT_TRUE(ranks.await(rank, kLong));
      const std::string who = fmt::format("[supervision] rank {} (pid {} on ", victim, ranks.pid(victim));
      EXPECT_TRUE(contains(ranks.report(rank), who)) << ranks.report(rank);
      EXPECT_TRUE(contains(ranks.report(rank), "has been silent for ")) << ranks.report(rank);
    }
  }
}

// Label: waits
TEST(HeartbeatSender, WithoutHeartbeatsAStoppedRankIsWaitedFor) {
  const std::string address = free_address();
  RankProcesses ranks(3);
  ranks.start_all([&](int rank) -> std::string {
    const World world = join(rank, address, milliseconds(0));
    world.comm->barrier().wait();
    if (rank == 1) raise(SIGSTOP);
    world.comm->barrier().wait();
    return "went on";
  });
  std::this_thread::sleep_for(milliseconds(2'000));
  for (int tries = 0; tries < 40; ++tries) {  // a rank that was late is stopped only now
    ranks.kill(1, SIGCONT);
    if (ranks.await(1, milliseconds(500))) break;
  }
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(ranks.await(rank, kLong));
    EXPECT_EQ(ranks.report(rank), "went on");
  }
}

// All are stopped for longer than three heartbeats, as by Ctrl-Z, and go on one after the other.
// Label: waits
TEST(HeartbeatSender, APauseOfTheWholeJobIsForgiven) {
  const std::string address = free_address();
  RankProcesses ranks(3);
  ranks.start_all([&](int rank) -> std::string {
    const World world = join(rank, address, milliseconds(300));
    for (int i = 0; i < 40; ++i) {
      world.comm->barrier().wait();
      std::this_thread::sleep_for(milliseconds(100));
    }
    return "went on";
  });
  std::this_thread::sleep_for(milliseconds(1'500));
  for (int rank = 0; rank < 3; ++rank) ranks.kill(rank, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(2'000));
  for (int rank = 2; rank >= 0; --rank) {
    ranks.kill(rank, SIGCONT);
    std::this_thread::sleep_for(milliseconds(50));
  }
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(ranks.await(rank, kLong));
    EXPECT_EQ(ranks.report(rank), "went on");
  }
}

// A process that ends without a word has closed its connection, which is no silence: it may have had nothing to do.
// Label: waits
TEST(HeartbeatSender, ARankThatHasEndedIsNotCalledSilent) {
  StoreServer server({.world = 2});
  const auto rank_progress = std::make_shared<RankProgress>();
  const auto line = [&](int rank) { return TcpStore({.address = server.address(), .rank = rank, .world = 2}).line(); };
  std::atomic<bool> found = false;
  const HeartbeatSender stays(line(0), {.rank = 0, .every = milliseconds(100)}, rank_progress,
                              [&](const std::string&) { found = true; });
  auto gone = line(1);
  Beat beat{.every = milliseconds(100)};
  (void)gone->send({.kind = Frame::Kind::beat, .value = write_beat(beat)}, CommClock::now() + kLong);
  gone.reset();
  std::this_thread::sleep_for(milliseconds(800));
  EXPECT_FALSE(found);
  EXPECT_FALSE(server.finding());
}

// Label: waits
TEST(HeartbeatSender, ASilentConnectionIsFoundAndTold) {
  StoreServer server({.world = 2});
  const auto rank_progress = std::make_shared<RankProgress>();
  const auto line = [&](int rank) { return TcpStore({.address = server.address(), .rank = rank, .world = 2}).line(); };
  std::atomic<bool> found = false;
  const HeartbeatSender stays(line(0), {.rank = 0, .every = milliseconds(100)}, rank_progress,
                              [&](const std::string& text) { found = contains(text, "rank 1 has been silent"); });
  auto silent = line(1);
  Beat beat{.every = milliseconds(100)};
  (void)silent->send({.kind = Frame::Kind::beat, .value = write_beat(beat)}, CommClock::now() + kLong);
  for (int i = 0; i < 500 && !found; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(found);
  ASSERT_TRUE(server.finding());
  EXPECT_EQ(server.finding()->ranks, std::vector{1});
}

// The others learn from their own heartbeat senders what has been found.
// Label: waits
TEST(HeartbeatSender, ASpareRankIsNoFaultOfTheJobAndANeededOneIsNamedWithItsRole) {
  StoreServer server({.world = 3});
  const auto rank_progress = std::make_shared<RankProgress>();
  const auto line = [&](int rank) { return TcpStore({.address = server.address(), .rank = rank, .world = 3}).line(); };
  const auto heartbeats = [&](int rank, milliseconds every) {
    return std::make_unique<HeartbeatSender>(line(rank), HeartbeatOptions{.rank = rank, .every = every}, rank_progress,
                                             [](const std::string&) {});
  };
  // Ranks that beat once as what they are and never again in the time of this test.
  const auto silent = [&](int rank, const char* role, bool spare) {
    auto own = line(rank);
    const Beat beat{.every = milliseconds(100), .spare = spare, .role = role};
    (void)own->send({.kind = Frame::Kind::beat, .value = write_beat(beat)}, CommClock::now() + kLong);
    return own;
  };
  const auto stays = heartbeats(0, milliseconds(100));
  stays->take_role("leader", false);
  const auto spare = silent(1, "worker 1", true);
  std::this_thread::sleep_for(milliseconds(800));
  EXPECT_EQ(stays->finding(), "") << "a spare rank is no fault of the job";
  const auto needed = silent(2, "server 0", false);
  for (int i = 0; i < 500 && stays->finding().empty(); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(contains(stays->finding(), "[supervision] server 0, rank 2 has been silent")) << stays->finding();
}

}  // namespace
}  // namespace starling::dist
