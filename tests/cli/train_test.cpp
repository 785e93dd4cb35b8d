#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
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

  struct Ended {
    int status = 0;
    std::string err;
  };
  // Trains the written job until a file of this name appears in the run folder, calls `then` and sends the signal.
  Ended train_until(const std::string& name, int signal, const std::function<void()>& then = {}) const {
    const std::string program = testing::program_path().string();
    const std::string job = (folder_.path() / "job.yaml").string();
    const std::string err = (folder_.path() / "err").string();
    const pid_t child = ::fork();
    if (child == 0) {
      if (std::freopen(err.c_str(), "w", stderr) != nullptr)
        ::execl(program.c_str(), "starling", "train", job.c_str(), "--progress", "off", static_cast<char*>(nullptr));
      ::_exit(99);
    }
    for (int i = 0; i < 600 && !std::filesystem::exists(run_folder() / name); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (then) then();
    ::kill(child, signal);
    Ended ended;
    EXPECT_EQ(::waitpid(child, &ended.status, 0), child);
    ended.err = testing::file_text(err);
    return ended;
  }

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
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err.find("starling: "), 0U) << ran.err;
  EXPECT_NE(ran.err.find("dataset-fashion-mnist"), std::string::npos) << ran.err;
}

TEST_F(CliTrain, SavesAndEndsWith130WhenInterrupted) {
  write_job("epochs: 100000");
  const auto ended = train_until("checkpoints", SIGTERM);
  EXPECT_TRUE(WIFEXITED(ended.status));
  EXPECT_EQ(WEXITSTATUS(ended.status), 130);
  EXPECT_NE(ended.err.find("interrupted at step"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("the same command resumes"), std::string::npos) << ended.err;
  const auto steps = nlohmann::json::parse(testing::file_text(run_folder() / "summary.json")).at("steps").get<int>();
  EXPECT_TRUE(std::filesystem::exists(run_folder() / "checkpoints" / fmt::format("step-{:08}", steps)));
}

TEST_F(CliTrain, SaysHowARunThatStartedOverGoesOn) {
  write_job("epochs: 100000, resume: none");
  const auto ended = train_until("checkpoints", SIGINT);
  EXPECT_NE(ended.err.find("with --resume auto resumes"), std::string::npos) << ended.err;
}

TEST_F(CliTrain, OneRunAtATimeUsesAFolder) {
  const std::string job = write_job("epochs: 100000");
  testing::Ran second;
  train_until("job.yaml", SIGKILL, [&] { second = run_starling("train " + job + " --progress off"); });
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.err.find("no other run"), std::string::npos) << second.err;
  const auto after = run_starling("train " + job + " --progress off --resume none --set train.epochs=1");
  EXPECT_EQ(after.code, 0) << after.err;
}

// The last line names the summary only where there is one.
TEST_F(CliTrain, ASummaryThatCouldNotBeWrittenIsNotNamedInTheLastLine) {
  const auto in_the_way = folder_.path() / "run" / "summary.json" / "a folder of this name";
  const std::string line = "train " + write_job("epochs: 1") + " --progress plain --set train.folder='" +
                           (folder_.path() / "run").string() + "'";
  std::filesystem::create_directories(in_the_way);
  const auto without = run_starling(line);
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_NE(without.err.find("summary.json"), std::string::npos) << "a warning\n" << without.err;
  EXPECT_NE(without.out.find("no summary was written"), std::string::npos) << without.out;
  EXPECT_EQ(without.out.find("summary.json"), std::string::npos) << without.out;
  std::filesystem::remove_all(in_the_way.parent_path());
  const auto with = run_starling(line + " --resume none");
  EXPECT_EQ(with.code, 0) << with.err;
  EXPECT_EQ(with.out.find("no summary was written"), std::string::npos) << with.out;
  EXPECT_NE(with.out.find("summary.json"), std::string::npos) << with.out;
}

TEST_F(CliTrain, AFullDiskIsToldAndTrainedOn) {
  const std::string disk = (folder_.path() / "disk").string();
  std::filesystem::create_directories(disk);
  // In its own user namespace, which needs no privileges if the machine allows them at all.
  const std::string alone =
      "unshare --user --map-root-user --mount sh -c \"mount -t tmpfs -o size=1100k tmpfs '" + disk + "'";
  if (std::system((alone + "\" 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "this user may not make a small disk of its own (unshare, mount)";
  const std::string err = (folder_.path() / "err").string(), out = (folder_.path() / "out").string();
  const std::string train = " && '" + testing::program_path().string() + "' train " + write_job("epochs: 4") +
                            " --progress plain --set train.folder='" + disk + "/run'\" >'" + out + "' 2>'" + err + "'";
  const int status = std::system((alone + train).c_str());
  const std::string told = testing::file_text(err);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1) << "the trained weights are nowhere\n" << told;
  EXPECT_NE(told.find("warning: no checkpoint of step"), std::string::npos) << told;
  EXPECT_NE(told.find("No space left on device"), std::string::npos) << told;
  EXPECT_NE(told.find("epoch 4/4"), std::string::npos) << "it was trained to the end\n" << told;
  const std::string last = testing::file_text(out);
  const bool failed = told.find("summary.json") != std::string::npos;  // a warning: it could not be written
  EXPECT_EQ(last.find("no summary was written") != std::string::npos, failed) << last << told;
}

}  // namespace
}  // namespace starling
