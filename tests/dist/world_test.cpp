#include "starling/dist/launch/world.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "dist/comm_worlds.h"
#include "starling/dist/comm/transport/gloo_comm.h"
#include "starling/dist/launch/connect.h"
#include "starling/dist/launch/launcher/supervisor.h"
#include "starling/dist/launch/store/tcp_store.h"
#include "testing/temporary_folder.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;
using testing::error_of;

// Rank bodies of the tests below, which start this program again as ranks.
class RankBody : public ::testing::Test {
 protected:
  static bool is_rank() { return std::getenv("STARLING_TEST_RANKS") != nullptr; }
  static World join() {
    return join_world({}, {.join_deadline = milliseconds(30'000), .call_deadline = milliseconds(30'000)});
  }
};

float sum_of_ranks(const World& world) {
  auto value = static_cast<float>(world.info.rank + 1);
  world.comm->all_reduce(&value, &value, 1, DType::f32, ReduceOp::sum).wait();
  return value;
}

TEST_F(RankBody, DISABLED_AddsUp) {
  if (!is_rank()) GTEST_SKIP();
  const World world = join();
  fmt::print("sum {} over {} local {}/{} epoch {}\n", sum_of_ranks(world), world.backend, world.info.local_rank,
             world.info.local_world, world.epoch);
  std::fflush(stdout);
}

// Without a deadline rank 0 waits for a rank that comes late, among a part of the ranks too.
TEST_F(RankBody, DISABLED_WaitsInAPart) {
  if (!is_rank()) GTEST_SKIP();
  const WorldOptions how{.join_deadline = milliseconds(30'000), .deadline = milliseconds(0)};
  const World world = join_world({}, how);
  const auto part = world.part({.rank = world.info.rank, .world = 2}, "pair", how);
  if (world.info.rank == 1) std::this_thread::sleep_for(milliseconds(300));
  auto value = static_cast<float>(world.info.rank + 1);
  part->all_reduce(&value, &value, 1, DType::f32, ReduceOp::sum).wait();
  fmt::print("sum {} of the part\n", value);
  std::fflush(stdout);
}

// Two ranks per emulated host, on one machine.
TEST_F(RankBody, DISABLED_AddsUpOnTwoHosts) {
  if (!is_rank()) GTEST_SKIP();
  const int rank = std::atoi(std::getenv("STARLING_RANK"));
  ::setenv("STARLING_HOST", rank < 2 ? "alpha" : "beta", 1);
  const World world = join();
  fmt::print("sum {} over {} local {}/{}\n", sum_of_ranks(world), world.backend, world.info.local_rank,
             world.info.local_world);
  std::fflush(stdout);
}

TEST_F(RankBody, DISABLED_LosesOne) {
  if (!is_rank()) GTEST_SKIP();
  const World world = join();
  sum_of_ranks(world);
  if (world.info.rank == std::atoi(std::getenv("STARLING_TEST_VICTIM"))) {
    world.report_step(7);
    sum_of_ranks(world);
    ::kill(::getpid(), SIGKILL);
  }
  world.report_step(7);
  try {
    for (int step = 8;; ++step) sum_of_ranks(world);
  } catch (const Error& error) {
    world.report_failure(error.what());
    fmt::print(stderr, "survivor: {}\n", error.what());
    std::_Exit(1);
  }
}

TEST_F(RankBody, DISABLED_FailsOnce) {
  if (!is_rank()) GTEST_SKIP();
  const World world = join();
  sum_of_ranks(world);
  if (world.info.rank == 1) {
    world.report_failure("no more data");
    world.comm->abort("no more data");
    std::this_thread::sleep_for(milliseconds(200));  // the other leaves before this one
    fmt::print(stderr, "starling: no more data\n");
    std::_Exit(1);
  }
  const std::string error = error_of([&] {
    for (;;) sum_of_ranks(world);
  });
  world.report_failure(error);
  fmt::print(stderr, "survivor: {}\n", error);
  std::_Exit(1);
}

// One rank hangs, in a way that STARLING_TEST_VICTIM says; the others tell how they end.
TEST_F(RankBody, DISABLED_HoldsUpTheOthers) {
  if (!is_rank()) GTEST_SKIP();
  const World world = join_world(
      {}, {.join_deadline = milliseconds(30'000), .heartbeat = milliseconds(400), .deadline = milliseconds(2'000)});
  sum_of_ranks(world);
  world.report_step(7);
  const std::string victim = std::getenv("STARLING_TEST_VICTIM");
  try {
    if (world.info.rank == 1 && victim == "stopped") ::kill(::getpid(), SIGSTOP);
    if (world.info.rank == 1 && victim == "loops") std::this_thread::sleep_for(std::chrono::seconds(60));
    if (world.info.rank == 1 && victim == "computes") ::kill(::getpid(), SIGSTOP);
    if (victim == "computes") std::this_thread::sleep_for(std::chrono::seconds(60));  // no rank waits for another
    if (world.info.rank == 1 && victim == "works") {  // alone, for longer than the deadline
      for (int i = 0; i < 40; ++i) {
        std::this_thread::sleep_for(milliseconds(100));
        world.report_progress();
      }
    }
    sum_of_ranks(world);
    fmt::print("went on\n");
    std::fflush(stdout);
  } catch (const Error& error) {
    world.report_failure(error.what());
    fmt::print(stderr, "survivor: {}\n", error.what());
    std::_Exit(1);
  }
}

// One rank is done and stopped before its process ends; the other ends. Heartbeats are so far apart that a busy machine
// does not make a rank silent.
TEST_F(RankBody, DISABLED_IsStoppedAtTheEnd) {
  if (!is_rank()) GTEST_SKIP();
  int rank = 0;
  {
    const World world = join_world(
        {},
        {.join_deadline = milliseconds(60'000), .heartbeat = milliseconds(2'000), .deadline = milliseconds(10'000)});
    sum_of_ranks(world);
    rank = world.info.rank;
  }
  if (rank == 1) ::kill(::getpid(), SIGSTOP);
}

struct Launched {
  LaunchEnd end;
  std::string out{}, err{};
  double seconds = 0;
};

class LaunchedWorlds : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("STARLING_TEST_RANKS", "1", 1); }
  void TearDown() override { ::unsetenv("STARLING_TEST_RANKS"); }

  Launched run(const std::string& body, int ranks, const std::string& backend) const {
    const UniqueFd out(::open((folder_ / "out").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const UniqueFd err(::open((folder_ / "err").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const auto began = CommClock::now();
    Launched launched{
        .end = launch({.argv = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                "--gtest_also_run_disabled_tests", "--gtest_filter=RankBody.DISABLED_" + body},
                       .slots = *assign_ranks(ranks, {{"", ranks}}),
                       .backend = backend,
                       .output = out.get(),
                       .error = err.get()})};
    launched.seconds = seconds_since(began);
    launched.out = testing::read_text(folder_ / "out");
    launched.err = testing::read_text(folder_ / "err");
    return launched;
  }

  testing::TemporaryFolder folder_;
};

class Worlds : public LaunchedWorlds, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "gloo" && !has_gloo()) GTEST_SKIP() << "built without Gloo";
    LaunchedWorlds::SetUp();
  }
};

TEST_P(Worlds, OfProcessesAddUp) {
  const auto launched = run("AddsUp", 3, GetParam());
  EXPECT_EQ(launched.end.code, 0) << launched.err;
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(contains(launched.out, fmt::format("[{0}] sum 6 over {1} local {0}/3 epoch 0", rank, GetParam())));
}

TEST_P(Worlds, WithoutADeadlineWaitInAPartForARankThatComesLate) {
  const auto launched = run("WaitsInAPart", 2, GetParam());
  EXPECT_EQ(launched.end.code, 0) << launched.err;
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_TRUE(contains(launched.out, fmt::format("[{}] sum 3 of the part", rank))) << launched.err;
}

// Label: waits
TEST_P(Worlds, NameARankThatIsKilledItsSignalAndItsStep) {
  for (int victim = 0; victim < 2; ++victim) {
    ::setenv("STARLING_TEST_VICTIM", std::to_string(victim).c_str(), 1);
    const auto launched = run("LosesOne", 2, GetParam());
    EXPECT_EQ(launched.end.code, 1);
    ASSERT_TRUE(launched.end.failed) << launched.err;
    EXPECT_EQ(launched.end.failed->slot.rank, victim) << launched.err;
    EXPECT_EQ(launched.end.failed->exit.signal, SIGKILL);
    EXPECT_EQ(launched.end.failed->step, 7);
    EXPECT_TRUE(contains(launched.err, "was killed by SIGKILL, last reported step 7"));
  }
}

// Label: waits
TEST_P(Worlds, NameTheRankThatFailedFirstEvenIfItEndsLast) {
  const auto launched = run("FailsOnce", 2, GetParam());
  ASSERT_TRUE(launched.end.failed) << launched.err;
  EXPECT_EQ(launched.end.failed->slot.rank, 1) << launched.err;
  EXPECT_TRUE(contains(launched.err, "[1] starling: no more data\nstarling: rank 1 ")) << launched.err;
}

// Label: waits
TEST_P(Worlds, NameARankThatIsStoppedOrHungAndNoSurvivor) {
  for (const char* victim : {"stopped", "computes", "loops"}) {
    ::setenv("STARLING_TEST_VICTIM", victim, 1);
    const auto launched = run("HoldsUpTheOthers", 3, GetParam());
    EXPECT_EQ(launched.end.code, 1);
    ASSERT_TRUE(launched.end.failed) << launched.err;
    EXPECT_EQ(launched.end.failed->slot.rank, 1) << launched.err;
    const std::string who = fmt::format("starling: rank 1 (pid {} on {}) ", launched.end.failed->pid, host_name());
    const bool loops = std::string(victim) == "loops";
    EXPECT_TRUE(contains(launched.err, who + (loops ? "after step 7: no progress for " : "has been silent for ")));
    // Survivors that come to tell anything before they are ended tell the same.
    for (auto at = launched.err.find("survivor: "); at != std::string::npos;
         at = launched.err.find("survivor: ", at + 1))
      EXPECT_TRUE(contains(launched.err.substr(at, 60), "] [supervision] rank 1 (pid ")) << launched.err;
    EXPECT_LT(launched.seconds, 10);
  }
}

// Label: waits
TEST_P(Worlds, NameARankThatIsStoppedAfterItHasLeft) {
  const auto launched = run("IsStoppedAtTheEnd", 2, GetParam());
  EXPECT_EQ(launched.end.code, 1) << launched.err;
  ASSERT_TRUE(launched.end.failed) << launched.err;
  EXPECT_EQ(launched.end.failed->slot.rank, 1) << launched.err;
  EXPECT_TRUE(contains(launched.err, fmt::format("starling: rank 1 (pid {} on ", launched.end.failed->pid)));
  EXPECT_TRUE(contains(launched.err, "has been silent for ")) << launched.err;
}

// Label: waits
TEST_P(Worlds, WaitForARankThatWorksAloneAsLongAsItReports) {
  ::setenv("STARLING_TEST_VICTIM", "works", 1);
  const auto launched = run("HoldsUpTheOthers", 3, GetParam());
  EXPECT_EQ(launched.end.code, 0) << launched.err;
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(contains(launched.out, fmt::format("[{}] went on", rank)));
}

TEST_F(LaunchedWorlds, OnSeveralHostsUseSharedMemoryInsideThem) {
  if (!has_gloo()) GTEST_SKIP() << "built without Gloo";
  const auto launched = run("AddsUpOnTwoHosts", 3, "auto");
  EXPECT_EQ(launched.end.code, 0) << launched.err;
  EXPECT_TRUE(contains(launched.out, "[1] sum 6 over shared+gloo local 1/2"));
  EXPECT_TRUE(contains(launched.out, "[2] sum 6 over shared+gloo local 0/1"));
}

TEST_F(LaunchedWorlds, OnSeveralHostsCannotBeAllSharedMemory) {
  const auto launched = run("AddsUpOnTwoHosts", 3, "shared");
  EXPECT_EQ(launched.end.code, 1);
  EXPECT_TRUE(contains(launched.out, "expected all 3 ranks on one host for the backend shared, got 2 hosts"));
}

INSTANTIATE_TEST_SUITE_P(Over, Worlds, ::testing::Values("shared", "gloo"),
                         [](const auto& info) { return info.param; });

TEST(World, OfAProcessWithoutLauncherHasOneRank) {
  const World world = join_world();
  EXPECT_TRUE(world.alone());
  EXPECT_TRUE(world.leads());
  EXPECT_EQ(sum_of_ranks(world), 1);
  world.report_step(3);
  world.report_failure("nobody listens");
}

TEST(HostMaps, NumberHostsInTheOrderOfTheirFirstRanks) {
  const std::vector<int> host_of = number_hosts({"b", "a", "b", "c", "a"});
  EXPECT_EQ(host_of, (std::vector<int>{0, 1, 0, 2, 1}));
  EXPECT_EQ(HostMap(host_of, 0).hosts(), 3);
  EXPECT_EQ(HostMap(host_of, 2).local_rank(), 1);
  EXPECT_EQ(HostMap(host_of, 4).local_world(), 2);
  EXPECT_EQ(HostMap(host_of, 3).local_world(), 1);
}

TEST(HostMaps, AreExchangedThroughTheStore) {
  const auto store = make_memory_store();
  std::vector<std::optional<HostMap>> maps(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      maps[static_cast<std::size_t>(rank)] =
          exchange_hosts({.rank = rank, .world = 3}, *store, rank == 1 ? "beta" : "alpha", milliseconds(20'000));
    });
  }
  for (auto& rank : ranks) rank.join();
  for (const auto& map : maps) {
    EXPECT_EQ(map->host_of(), (std::vector<int>{0, 1, 0}));
    EXPECT_EQ(map->hosts(), 2);
  }
}

// Two hosts of one name differ in the boot.
TEST(HostIdentity, TellsTheBootAndTheHostAndCanBeSetByTheEnvironment) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  ASSERT_FALSE(boot.empty());
  const Variables none = [](const std::string&) { return std::optional<std::string>(); };
  EXPECT_TRUE(host_identity(none).starts_with(boot + " " + host_name() + " ")) << host_identity(none);
  EXPECT_EQ(host_identity([](const std::string& name) {
              return name == "STARLING_HOST" ? std::optional<std::string>("beta") : std::nullopt;
            }),
            "beta");
}

}  // namespace
}  // namespace starling::dist
