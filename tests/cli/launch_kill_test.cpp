#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cli/launched.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in \"" << text << "\"";
}

using testing::process_of;

// A deterministic job with checkpoints within epochs, run by launched ranks and by one process.
class LaunchKill : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "gloo" && !has_gloo()) GTEST_SKIP() << "built without Gloo";
    testing::write_tiny_fashion(folder_.path(), 240, 24);
  }

  std::filesystem::path run_folder(const std::string& run) const { return folder_.path() / run; }
  std::string write_job(const std::string& run) const {
    const auto file = folder_.path() / (run + ".yaml");
    std::ofstream(file) << "model: {name: mlp}\n"
                        << "data: {folder: " << folder_.path().string() << ", batch: 24}\n"
                        << "optimizer: {lr: 0.02, momentum: 0.9}\n"
                        << "train: {folder: " << run_folder(run).string()
                        << ", epochs: 3, checkpoint_every: 5, export: false}\n"
                        << "distribute: {threads: 2, strategy: allreduce, deterministic: true}\n"
                        << "monitor: {tensorboard: false}\n";
    return file.string();
  }
  nlohmann::json summary(const std::string& run) const {
    return nlohmann::json::parse(testing::file_text(run_folder(run) / "summary.json"));
  }
  std::size_t checkpoints(const std::string& run) const {
    std::error_code none;
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(run_folder(run) / "checkpoints", none))
      count += entry.path().string().find(".tmp") == std::string::npos ? 1 : 0;
    return count;
  }

  // `more`: options of launch; `train`: of train.
  pid_t launch(const std::string& job, const std::vector<std::string>& more,
               const std::vector<std::string>& train = {}) const {
    std::vector<std::string> words = {testing::program_path().string(), "launch", "-n", "2", "--backend", GetParam()};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {job, "--progress", "off"});
    words.insert(words.end(), train.begin(), train.end());
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string log = (folder_.path() / "log").string();
    const pid_t child = ::fork();
    if (child != 0) return child;
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, 1);
    ::dup2(fd, 2);
    ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  std::string log() const { return testing::file_text(folder_.path() / "log"); }

  static int wait(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Waits until the run has a checkpoint to resume from and steps beyond it.
  pid_t rank_under_way(pid_t launcher, const std::string& run, int rank) const {
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (checkpoints(run) == 0 && Clock::now() < end) {
      if (::waitpid(launcher, nullptr, WNOHANG | WNOWAIT) == launcher) break;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return process_of(launcher, rank);
  }

  testing::TestFolder folder_{"cli-launch-kill"};
};

// Label: waits
TEST_P(LaunchKill, ARunWhoseRanksAreKilledInTurnEndsWithTheWeightsOfOneThatWasNot) {
  const std::string quiet = write_job("quiet");
  ASSERT_EQ(testing::run_starling("train '" + quiet + "' --progress off").code, 0);
  for (int victim = 0; victim < 2; ++victim) {
    const std::string run = fmt::format("killed{}", victim);
    const pid_t launcher = launch(write_job(run), {"--max-restarts", "2"});
    const pid_t rank = rank_under_way(launcher, run, victim);
    ASSERT_GT(rank, 0) << log();
    ASSERT_EQ(::kill(rank, SIGKILL), 0);
    ASSERT_EQ(wait(launcher), 0) << log();
    EXPECT_TRUE(has(log(), fmt::format("rank {} (pid {} on ", victim, rank)));
    EXPECT_TRUE(has(log(), "was killed by SIGKILL, last reported step "));
    EXPECT_TRUE(has(log(), "restart 1 of 2"));
    EXPECT_EQ(summary(run).at("weights_hash"), summary("quiet").at("weights_hash"));
    EXPECT_EQ(summary(run).at("steps"), summary("quiet").at("steps"));
  }
}

// Label: waits
TEST_P(LaunchKill, WithoutRestartsAllEndWithinFiveSecondsAndTheSameCommandGoesOn) {
  const std::string quiet = write_job("quiet"), job = write_job("killed");
  ASSERT_EQ(testing::run_starling("train '" + quiet + "' --progress off").code, 0);
  const pid_t launcher = launch(job, {});
  const pid_t rank = rank_under_way(launcher, "killed", 1), other = process_of(launcher, 0);
  ASSERT_GT(rank, 0) << log();
  ::kill(rank, SIGKILL);
  const auto killed = Clock::now();
  EXPECT_EQ(wait(launcher), 1) << log();
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - killed).count(), 5);
  EXPECT_NE(::kill(other, 0), 0);
  EXPECT_TRUE(has(log(), "was killed by SIGKILL"));
  ASSERT_EQ(wait(launch(job, {})), 0) << log();
  EXPECT_EQ(summary("killed").at("weights_hash"), summary("quiet").at("weights_hash"));
}

// The rank is killed as soon as it is seen, mostly before the old run is put aside.
// Label: waits
TEST_P(LaunchKill, ARunThatStartsOverNeverGoesOnFromTheOneBeforeIt) {
  const std::string job = write_job("over");
  ASSERT_EQ(testing::run_starling("train '" + job + "' --progress off --set train.epochs=1").code, 0);
  const pid_t launcher = launch(job, {"--max-restarts", "1"}, {"--resume", "none"});
  pid_t rank = -1;
  const auto end = Clock::now() + std::chrono::seconds(20);
  while ((rank = process_of(launcher, 1)) < 0 && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  ASSERT_GT(rank, 0) << log();
  ASSERT_EQ(::kill(rank, SIGKILL), 0);
  ASSERT_EQ(wait(launcher), 0) << log();
  EXPECT_TRUE(has(log(), "restart 1 of 1"));
  EXPECT_EQ(summary("over").at("steps"), 30);
  EXPECT_TRUE(std::filesystem::exists(run_folder("over") / "checkpoints-before-1")) << log();
  EXPECT_FALSE(std::filesystem::exists(run_folder("over") / "checkpoints-before-2")) << log();
}

// Label: waits
TEST_P(LaunchKill, AFailureThatWouldRepeatIsNotRestarted) {
  const std::string job = write_job("other");
  ASSERT_EQ(testing::run_starling("train '" + job + "' --progress off --set train.epochs=1").code, 0);
  EXPECT_EQ(wait(launch(job, {"--max-restarts", "2"}, {"--set", "train.seed=7"})), 2) << log();
  EXPECT_TRUE(has(log(), "train.seed was")) << "a checkpoint of another run";
  EXPECT_EQ(log().find("restart 1"), std::string::npos) << log();
  EXPECT_EQ(wait(launch(job, {"--max-restarts", "2"}, {"--set", "train.folder=/proc/run"})), 2) << log();
  EXPECT_TRUE(has(log(), "expected to make the folder /proc/run"));
  EXPECT_EQ(log().find("restart 1"), std::string::npos) << log();
}

// Label: waits
TEST_P(LaunchKill, AStopSavesAndTheSameCommandGoesOn) {
  const std::string quiet = write_job("quiet"), job = write_job("stopped");
  ASSERT_EQ(testing::run_starling("train '" + quiet + "' --progress off").code, 0);
  const pid_t launcher = launch(job, {});
  ASSERT_GT(rank_under_way(launcher, "stopped", 0), 0) << log();
  ::kill(launcher, SIGTERM);
  EXPECT_EQ(wait(launcher), 130) << log();
  EXPECT_TRUE(has(log(), "interrupted at step"));
  ASSERT_EQ(wait(launch(job, {})), 0) << log();
  EXPECT_EQ(summary("stopped").at("weights_hash"), summary("quiet").at("weights_hash"));
}

INSTANTIATE_TEST_SUITE_P(Over, LaunchKill, ::testing::Values("shared", "gloo"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace starling
