#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/tiny_job.h"

namespace starling {
namespace {

using testing::has;
using testing::run_starling;

class CliSweep : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_tiny_fashion(folder_.path(), 40, 20);
    write_job("epochs: 1", "sweep: {settings: {optimizer.lr: [0.1, 0.01]}}");
  }
  void write_job(const std::string& train, const std::string& sweep) const {
    std::ofstream(job_) << "model: {name: mlp}\n"
                        << "data: {folder: " << folder_.path().string() << ", batch: 20}\n"
                        << "train: {folder: " << (folder_.path() / "run").string() << ", export: false, " << train
                        << "}\nmonitor: {tensorboard: false}\n"
                        << sweep << "\n";
  }
  std::filesystem::path sweep() const { return folder_.path() / "run-sweep"; }
  std::string job() const { return "'" + job_.string() + "'"; }

  testing::TestFolder folder_{"cli-sweep"};
  std::filesystem::path job_ = folder_.path() / "job.yaml";
};

TEST_F(CliSweep, TrainsAllCombinationsAndDoesNotDoSoAgain) {
  const auto first = run_starling("sweep " + job() + " --workers 2");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(has(first.out, "  lr  ") && has(first.out, "test_accuracy")) << first.out;
  for (const char* trial : {"trial-001", "trial-002"}) {
    EXPECT_TRUE(has(first.err, std::string(trial) + " (lr=")) << first.err;
    EXPECT_TRUE(std::filesystem::exists(sweep() / trial / "summary.json"));
  }
  EXPECT_TRUE(has(testing::file_text(sweep() / "sweep.svg"), "lr=0.01"));
  const auto again = run_starling("sweep " + job() + " --vary optimizer.lr=0.1,0.05");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(has(again.err, "trial-001 (lr=0.1): done before")) << again.err;
  EXPECT_TRUE(has(again.err, "trial-003 (lr=0.05): started")) << again.err;
  const auto other = run_starling("sweep " + job() + " --set train.seed=9");
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(has(other.err, "train.seed was 1, is 9")) << other.err;
}

TEST_F(CliSweep, TakesFurtherKindsAndAnyOrderOfSettings) {
  const std::string sweep_it = "sweep " + job() + " -o '" + (folder_.path() / "kinds").string() + "' ";
  const auto first = run_starling(sweep_it + "--vary optimizer.name=sgd --vary data.batch=20");
  ASSERT_EQ(first.code, 0) << first.err;
  const auto more = run_starling(sweep_it + "--vary data.batch=20 --vary optimizer.name=sgd,adam");
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_TRUE(has(more.err, "trial-001 (lr=0.1 batch=20 name=sgd): done before")) << more.err;
  EXPECT_TRUE(has(more.err, "trial-003 (lr=0.1 batch=20 name=adam): started")) << more.err;
  const auto other =
      run_starling(sweep_it + "--vary data.batch=20 --vary optimizer.name=sgd --set optimizer.momentum=0.5");
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(has(other.err, "of trial-001, optimizer.momentum was")) << other.err;
}

TEST_F(CliSweep, ATrialThatFailsIsToldAndDoesNotEndTheSweep) {
  const auto ran = run_starling("sweep " + job() + " --vary optimizer.lr=1e30,0.01 --set train.epochs=2");
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_TRUE(has(ran.err, "trial-001 (lr=1e+30): failed: [train] expected")) << ran.err;
  EXPECT_TRUE(has(ran.err, "1 of 2 trials failed")) << ran.err;
  EXPECT_LT(ran.out.find("trial-002  finished"), ran.out.find("trial-001  failed")) << ran.out;
}

TEST_F(CliSweep, TriesListsAndFitsItsTableToTheTerminal) {
  const auto ran = testing::run_shell_in(
      folder_.path(), "COLUMNS=60 starling sweep " + job() + " --vary 'model.hidden=[4],[4, 4]' --set train.epochs=1");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "  [4]  ") && has(ran.out, "  [4,4]  ")) << ran.out;
  std::istringstream lines(ran.out.substr(0, ran.out.find("curves of")));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 60U) << line;
}

TEST_F(CliSweep, SaysWhichTrialIsBestAndWhichAreEqual) {
  const auto one = run_starling("sweep " + job() + " --vary optimizer.lr=1e-12");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(has(one.out, "\nbest: trial-001 (lr=1e-12), test_accuracy ")) << one.out;
  const auto two = run_starling("sweep " + job() + " --vary optimizer.lr=1e-12,2e-12");  // neither changes anything
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_TRUE(has(two.out, "\nbest: 2 trials are equal in test_accuracy ")) << two.out;
  EXPECT_TRUE(has(two.out, ": trial-001 (lr=1e-12), trial-002 (lr=2e-12); another --metric, as loss, ")) << two.out;
}

TEST_F(CliSweep, TellsAWrongSettingBeforeAnythingRuns) {
  const auto path = run_starling("sweep " + job() + " --vary optimizer.lrr=0.1,0.2");
  EXPECT_EQ(path.code, 2);
  EXPECT_TRUE(has(path.err, "did you mean 'lr'?")) << path.err;
  const auto section = run_starling("sweep " + job() + " --vary lr=0.1,0.2");
  EXPECT_EQ(section.code, 2);
  EXPECT_TRUE(has(section.err, "--vary lr: [config]") && has(section.err, "(did you mean --vary optimizer.lr=…?)"))
      << section.err;
  const auto metric = run_starling("sweep " + job() + " --metric acuracy");
  EXPECT_EQ(metric.code, 2);
  EXPECT_TRUE(has(metric.err, "test_accuracy")) << metric.err;
  write_job("epochs: 1", "sweep: {settings: {optimizer.lr: 3}}");
  const auto train = run_starling("validate " + job());
  EXPECT_EQ(train.code, 2);
  EXPECT_TRUE(has(train.err, "job.yaml:5:")) << train.err;
  EXPECT_FALSE(std::filesystem::exists(sweep()));
}

TEST_F(CliSweep, HalvingGoesOnWithTheBestOnly) {
  write_job("epochs: 4",
            "sweep: {method: halving, trials: 4, eta: 2, settings: {optimizer.lr: {min: 0.001, max: 0.5, log: true}}}");
  const auto ran = run_starling("sweep " + job());
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count(ran.err, ": started"), 4) << ran.err;
  EXPECT_EQ(count(ran.err, ": dropped after 1 epoch\n"), 2) << ran.err;
  EXPECT_EQ(count(ran.err, ": dropped after 2 epochs"), 1) << ran.err;
  EXPECT_EQ(count(ran.out, "finished"), 1) << ran.out;
  EXPECT_EQ(count(ran.out, "dropped"), 3) << ran.out;
}

// A sweep that was killed leaves a trial with a checkpoint behind, but without its last epochs.
TEST_F(CliSweep, ResumesATrialThatWasCutShort) {
  write_job("epochs: 2", "sweep: {settings: {optimizer.lr: [0.1]}}");
  const std::string train = "train " + job() + " --progress off --set optimizer.lr=0.1 --set train.folder='";
  ASSERT_EQ(run_starling(train + (folder_.path() / "whole").string() + "'").code, 0);
  ASSERT_EQ(run_starling(train + (sweep() / "trial-001").string() + "' --pause-after 1").code, 0);
  const auto ran = run_starling("sweep " + job());
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.err, "trial-001 (lr=0.1): resumed")) << ran.err;
  EXPECT_TRUE(has(testing::file_text(sweep() / "trial-001" / "output.txt"), "step 2")) << "of its checkpoint";
  const auto hash = [](const std::filesystem::path& run) {
    return nlohmann::json::parse(testing::file_text(run / "summary.json")).at("weights_hash");
  };
  EXPECT_EQ(hash(sweep() / "trial-001"), hash(folder_.path() / "whole"));
}

TEST_F(CliSweep, StopsItsTrialsCleanly) {
  write_job("epochs: 200000", "");
  const std::string err = (folder_.path() / "err").string();
  const std::string program = testing::program_path().string();
  const pid_t child = ::fork();
  if (child == 0) {
    if (std::freopen(err.c_str(), "w", stderr) != nullptr)
      ::execl(program.c_str(), "starling", "sweep", job_.c_str(), "--vary", "optimizer.lr=0.01,0.02",
              static_cast<char*>(nullptr));
    ::_exit(99);
  }
  for (int i = 0; i < 600 && !std::filesystem::exists(sweep() / "trial-001" / "checkpoints"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_TRUE(testing::wait_for(child, status, std::chrono::seconds(30))) << testing::file_text(err);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << testing::file_text(err);
  EXPECT_TRUE(has(testing::file_text(err), "trial-001 (lr=0.01): interrupted")) << testing::file_text(err);
  EXPECT_FALSE(has(testing::file_text(err), "trial-002")) << testing::file_text(err);
  const auto rows = nlohmann::json::parse(run_starling("runs '" + sweep().string() + "' --json").out);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("state"), "interrupted");
}

}  // namespace
}  // namespace starling
