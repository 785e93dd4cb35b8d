// Sweeps whose trials are shell scripts that write what a run would.
#include "starling/train/sweep/sweep_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>

#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

std::string event(const std::string& kind, int step, double epoch, const std::string& more = "") {
  return fmt::format(R"({{"event": "{}", "step": {}, "epoch": {}, "seconds": 1.0, "time": {}{}}})", kind, step, epoch,
                     1000 + step, more.empty() ? "" : ", " + more) +
         "\n";
}

class SweepRun : public ::testing::Test {
 protected:
  // A sweep of one trial over two epochs, whose process runs the script in the trial's folder.
  SweepResult run(const std::string& script, const std::function<bool()>& stop = {},
                  std::chrono::milliseconds grace = std::chrono::seconds(60)) {
    SweepOptions options;
    options.sweep = read_sweep(ConfigNode::parse("settings: {optimizer.lr: [0.1]}", "job.yaml"));
    options.epochs = 2;
    options.metric = "test_accuracy";
    options.command = [&](const Trial&, const std::filesystem::path& folder, std::int64_t) {
      return std::vector<std::string>{"/bin/sh", "-c", "cd '" + folder.string() + "'; " + script};
    };
    options.stop = stop;
    options.grace = grace;
    options.tell = [&](const std::string& line) { told_ += line + "\n"; };
    SweepFolder folder(folder_.path(), {});
    return run_sweep(options, folder);
  }
  void write_log(const std::string& text) const {
    std::filesystem::create_directories(trial());
    std::ofstream(trial() / "log.jsonl") << text;
  }
  std::filesystem::path trial() const { return folder_.path() / "trial-001"; }
  bool told(const std::string& part) const { return told_.find(part) != std::string::npos; }

  testing::TestFolder folder_{"sweep-run"};
  std::string told_;
};

const std::string kFirstEpoch = event("begin", 0, 0) + event("eval", 5, 1, R"("test_accuracy": 0.5)");
const std::string kLastEvaluation = event("eval", 10, 2, R"("test_accuracy": 0.75)");
const std::string kFinish =
    "printf '%s' '" + kLastEvaluation + event("end", 10, 2, R"("how": "done")") + "' >> log.jsonl";

TEST_F(SweepRun, ATrialStoppedDuringItsLastEvaluationIsNotDone) {
  for (const std::string& end : {event("end", 10, 2, R"("how": "stopped")"), std::string()}) {
    write_log(kFirstEpoch + event("train", 10, 2, R"("loss": 0.1)") + end);
    told_.clear();
    const SweepResult result = run(kFinish);
    EXPECT_TRUE(told("trial-001 (lr=0.1): resumed")) << told_;
    EXPECT_EQ(result.trials[0].value, 0.75);
  }
}

TEST_F(SweepRun, ATrialThatFailedAfterItsLastEvaluationIsNotDone) {
  write_log(kFirstEpoch + kLastEvaluation + event("end", 10, 2, R"("how": "failed")"));
  run("true");
  EXPECT_TRUE(told("resumed")) << told_;
}

TEST_F(SweepRun, ATrialKilledAfterItsLastEvaluationIsDone) {
  write_log(kFirstEpoch + event("train", 10, 2, R"("loss": 0.1)") + kLastEvaluation);
  const SweepResult result = run("exit 1");
  EXPECT_TRUE(told("done before: test_accuracy 0.75")) << told_;
  EXPECT_EQ(result.trials[0].value, 0.75);
}

TEST_F(SweepRun, ATrialThatHangsIsKilledAfterTheGraceAndTold) {
  const auto began = std::chrono::steady_clock::now();
  const auto stop = [&] { return std::filesystem::exists(trial() / "hangs"); };
  const SweepResult result =
      run("trap '' INT TERM; touch hangs; while :; do sleep 0.05; done", stop, std::chrono::milliseconds(300));
  EXPECT_TRUE(result.interrupted);
  EXPECT_TRUE(told("killed: it had not ended 0.3 s after it was asked to")) << told_;
  EXPECT_TRUE(told("interrupted; the same command resumes it")) << told_;
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

}  // namespace
}  // namespace starling::train
