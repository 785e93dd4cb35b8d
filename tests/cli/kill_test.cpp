#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/program.h"

namespace starling {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kKills = 20;

// A job with momentum, a shuffled order and checkpoints in the middle of epochs.
class CliKill : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_tiny_fashion(folder_.path(), 700, 20); }

  std::filesystem::path run_folder(const std::string& run) const { return folder_.path() / run; }
  std::string write_job(const std::string& run) const {
    const auto file = folder_.path() / (run + ".yaml");
    std::ofstream(file) << "model: {name: lenet}\n"
                        << "data: {folder: " << folder_.path().string() << ", batch: 16}\n"
                        << "optimizer: {lr: 0.02, momentum: 0.9}\n"
                        << "train: {folder: " << run_folder(run).string() << ", epochs: 6, checkpoint_every: 7}\n"
                        << "distribute: {threads: 1}\n";
    return file.string();
  }
  nlohmann::json summary(const std::string& run) const {
    return nlohmann::json::parse(testing::file_text(run_folder(run) / "summary.json"));
  }

  testing::TestFolder folder_{"cli-kill"};
};

pid_t start(const std::string& job) {
  const std::string program = testing::program_path().string();
  const pid_t child = ::fork();
  if (child != 0) return child;
  if (std::freopen("/dev/null", "w", stderr) != nullptr && std::freopen("/dev/null", "w", stdout) != nullptr)
    ::execl(program.c_str(), "starling", "train", job.c_str(), "--progress", "off", static_cast<char*>(nullptr));
  ::_exit(99);
}

// Exit code of the child, or -1 if it was killed after `patience`.
int wait_or_kill(pid_t child, std::chrono::microseconds patience) {
  const auto end = Clock::now() + patience;
  int status = 0;
  while (Clock::now() < end) {
    if (::waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Label: waits
TEST_F(CliKill, ARunKilledTwentyTimesEndsWithTheWeightsOfOneThatWasNot) {
  const std::string quiet = write_job("quiet"), disturbed = write_job("disturbed");
  const auto began = Clock::now();
  ASSERT_EQ(wait_or_kill(start(quiet), std::chrono::minutes(3)), 0);
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began);
  std::mt19937 random(20);
  int kills = 0, finished = 0;
  while (kills < kKills && finished < 3 * kKills) {
    // Killed at a random moment of the run; a run that ends before is restarted and killed again.
    const auto patience = std::chrono::microseconds(random() % static_cast<std::uint64_t>(whole.count()));
    const int code = wait_or_kill(start(disturbed), patience);
    if (code == -1) {
      ++kills;
      continue;
    }
    ASSERT_EQ(code, 0);
    ++finished;
    EXPECT_EQ(summary("disturbed").at("weights_hash"), summary("quiet").at("weights_hash"));
    std::filesystem::remove_all(run_folder("disturbed"));
  }
  EXPECT_EQ(kills, kKills);
  ASSERT_EQ(wait_or_kill(start(disturbed), std::chrono::minutes(3)), 0);
  EXPECT_EQ(summary("disturbed").at("weights_hash"), summary("quiet").at("weights_hash"));
  EXPECT_EQ(summary("disturbed").at("steps"), summary("quiet").at("steps"));
}

}  // namespace
}  // namespace starling
