// Jobs with parameter servers of which one process is stopped: with a spare one the job goes on and ends, any other is
// named.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/launched.h"
#include "starling/dist/ps/wire.h"

namespace starling::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kNamedWithin = 10s;  // with the default heartbeat

class SilentServers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dist::ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
    write_tiny_fashion(folder_.path(), 103, 40);
    std::ofstream(folder_.path() / "job.yaml")
        << "model: {name: mlp, hidden: [16]}\ndata: {folder: '" << folder_.path().string()
        << "', batch: 32}\noptimizer: {name: adagrad, lr: 0.02}\ntrain: {folder: '" << run().string()
        << "', export: false}\ndistribute: {strategy: async, threads: 1}\nmonitor: {tensorboard: false}\n";
  }
  std::filesystem::path run() const { return folder_.path() / "run"; }
  bool has_trained() const { return has(file_text(run() / "log.jsonl"), "\"eval\""); }

  // A job of three workers and two servers; returns once its first epoch is evaluated and a rank is stopped.
  std::unique_ptr<Launched> with_stopped(int rank, const std::string& set) {
    auto launched =
        std::make_unique<Launched>(folder_.path(), "-n 3 --servers 2 '" + (folder_.path() / "job.yaml").string() +
                                                       "' --progress off --set " + set);
    EXPECT_TRUE(comes_true([&] { return has_trained(); }, 60s)) << launched->log();
    victim_ = launched->rank(rank);
    send(victim_, SIGSTOP);
    stopped_ = Clock::now();
    return launched;
  }

  // `who`: role and rank.
  void expect_named(int rank, const std::string& who, const std::string& more = "") {
    const auto launched = with_stopped(rank, "train.epochs=100000 --set distribute.slow='[300,300,300]'" + more);
    const std::string name = fmt::format("starling: {} (pid {} on ", who, victim_);
    EXPECT_TRUE(comes_true([&] { return has(launched->log(), name); }, 60s)) << launched->log();
    EXPECT_LE(Clock::now() - stopped_, kNamedWithin) << launched->log();
    EXPECT_EQ(launched->wait(10s), 1);
    EXPECT_TRUE(has(headline(launched->log()), name)) << launched->log();
    EXPECT_TRUE(has(headline(launched->log()), "has been silent for ")) << launched->log();
  }

  TestFolder folder_{"cli-silent-servers"};
  pid_t victim_ = -1;
  Clock::time_point stopped_{};
};

// Label: waits
TEST_F(SilentServers, AStoppedSpareWorkerIsToldAsLostAndTheJobEndsWithoutIt) {
  const auto launched = with_stopped(2, "train.epochs=40 --set distribute.heartbeat=0.5");
  EXPECT_EQ(launched->wait(60s), 0) << launched->log();
  const std::string log = launched->log();
  EXPECT_TRUE(has(log, "worker 2 is lost: it has been silent for ")) << log;
  EXPECT_TRUE(has(log, fmt::format("starling: worker 2, rank 2 (pid {} on ", victim_))) << log;
  EXPECT_TRUE(has(log, "is still there 4 s after the others have ended, and is killed")) << log;
  const auto summary = nlohmann::json::parse(file_text(run() / "summary.json"));
  EXPECT_EQ(summary.at("steps"), 40 * 4);
  EXPECT_FALSE(summary.contains("interrupted"));
}

// The leader has slept with them and heard of nobody meanwhile.
// Label: waits
TEST_F(SilentServers, APauseOfAllOfThemIsNobodysSilence) {
  Launched launched(folder_.path(), "-n 3 --servers 2 '" + (folder_.path() / "job.yaml").string() +
                                        "' --progress off --set train.epochs=60 --set distribute.heartbeat=0.2");
  ASSERT_TRUE(comes_true([&] { return has_trained(); }, 60s)) << launched.log();
  std::vector<pid_t> all;
  for (int rank = 0; rank < 5; ++rank) all.push_back(launched.rank(rank));
  for (const pid_t pid : all) send(pid, SIGSTOP);
  std::this_thread::sleep_for(2s);
  for (const pid_t pid : all) send(pid, SIGCONT);
  EXPECT_EQ(launched.wait(60s), 0) << launched.log();
  EXPECT_FALSE(has(launched.log(), "is lost")) << launched.log();
}

// Label: waits
TEST_F(SilentServers, AStoppedServerIsNamed) { expect_named(4, "server 1, rank 4"); }

// Label: waits
TEST_F(SilentServers, AStoppedLeaderIsNamed) { expect_named(0, "leader, rank 0"); }

// Label: waits
TEST_F(SilentServers, AStoppedWorkerThatTheOthersNeedIsNamed) {
  expect_named(1, "worker 1, rank 1", " --set distribute.strategy=ssp --set distribute.staleness=0");
}

}  // namespace
}  // namespace starling::testing
