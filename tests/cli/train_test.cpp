#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/program.h"

namespace starling {
namespace {

using testing::run_starling;

class CliTrain : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_tiny_fashion(folder_.path(), 100, 20); }

  std::string write_job(const std::string& train) const {
    const auto file = folder_.path() / "job.yaml";
    std::ofstream(file) << "model: {name: mlp}\n"
                        << "data: {folder: " << folder_.path().string() << ", batch: 20}\n"
                        << "optimizer: {lr: 0.05}\n"
                        << "train: {folder: " << run_folder().string() << ", " << train << "}\n";
    return "'" + file.string() + "'";
  }
  std::filesystem::path run_folder() const { return folder_.path() / "run"; }

  testing::TestFolder folder_{"cli-train"};
};

TEST_F(CliTrain, TrainsAndTellsWhatCameOfIt) {
  const auto ran = run_starling("train " + write_job("epochs: 2") + " --progress plain --set optimizer.momentum=0.9");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("test_accuracy"), std::string::npos) << ran.out;
  EXPECT_NE(ran.err.find("epoch 2/2"), std::string::npos) << ran.err;
  EXPECT_NE(testing::file_text(run_folder() / "job.yaml").find("momentum: 0.9"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(testing::file_text(run_folder() / "summary.json")).at("steps"), 10);
}

TEST_F(CliTrain, NamesLineColumnAndNearestKeyOfABadJob) {
  const auto ran = run_starling("train " + write_job("epochs: 1, sede: 3"));
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err.find("starling: "), 0U) << ran.err;
  EXPECT_NE(ran.err.find("job.yaml:4:"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("did you mean 'seed'?"), std::string::npos) << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
}

TEST_F(CliTrain, FailsInOneLineWhenTheDataIsNotThere) {
  const auto ran = run_starling("train " + write_job("epochs: 1") + " --set data.folder=/nowhere");
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err.find("starling: "), 0U) << ran.err;
  EXPECT_NE(ran.err.find("dataset-fashion-mnist"), std::string::npos) << ran.err;
}

TEST_F(CliTrain, SavesAndEndsWith130WhenInterrupted) {
  write_job("epochs: 100000");
  const std::string program = testing::program_path().string();
  const std::string job = (folder_.path() / "job.yaml").string();
  const std::string err = (folder_.path() / "err").string();
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen(err.c_str(), "w", stderr) != nullptr)
      ::execl(program.c_str(), "starling", "train", job.c_str(), "--progress", "off", static_cast<char*>(nullptr));
    ::_exit(99);
  }
  for (int i = 0; i < 600 && !std::filesystem::exists(run_folder() / "checkpoints"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_NE(testing::file_text(err).find("interrupted at step"), std::string::npos) << testing::file_text(err);
  const auto steps = nlohmann::json::parse(testing::file_text(run_folder() / "summary.json")).at("steps").get<int>();
  EXPECT_TRUE(std::filesystem::exists(run_folder() / "checkpoints" / fmt::format("step-{:08}", steps)));
}

}  // namespace
}  // namespace starling
