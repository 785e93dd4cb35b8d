#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "starling/data/formats/npy.h"
#include "starling/ops/api/creation.h"

namespace starling {
namespace {

using testing::file_text;
using testing::run_starling_in;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// How runs end, and what the same command does afterwards.
class CliRunEnds : public ::testing::Test {
 protected:
  void SetUp() override { write(""); }
  void write(const std::string& more) const {
    std::ofstream(folder_.path() / "job.yaml")
        << "model: {name: mlp, hidden: [8]}\n"
           "data: {name: synthetic, train_samples: 40, test_samples: 20, shape: [1, 4, 4], batch: 10}\n"
        << more;
  }
  testing::Ran run(const std::string& arguments) const { return run_starling_in(folder_.path(), arguments); }
  testing::Ran train(const std::string& options = "") const {
    return run("train job.yaml --progress plain " + options);
  }
  std::string summary() const { return file_text(folder_.path() / "runs" / "job" / "summary.json"); }

  testing::TestFolder folder_{"cli-run-ends"};
};

TEST_F(CliRunEnds, AFinishedRunIsKeptAndTellsHowToTrainLonger) {
  write("train: {epochs: 2}\ndistribute: {workers: 2}\n");
  ASSERT_EQ(train().code, 0);
  const std::string before = summary();
  const auto again = train();
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(summary(), before) << "speeds and waits of the ranks are those of the training";
  EXPECT_TRUE(has(again.err, "runs/job is finished")) << again.err;
  EXPECT_TRUE(has(again.err, "train longer by --set train.epochs=4")) << again.err;
  const auto longer = train("--set train.epochs=4");
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_FALSE(has(longer.err, "is finished")) << longer.err;
  EXPECT_EQ(nlohmann::json::parse(summary()).at("steps"), 16);
}

TEST_F(CliRunEnds, AScheduleThatEndsWithTheRunIsSaidToBeWhyItCannotGetLonger) {
  write("train: {epochs: 2}\nschedule: cosine\n");
  ASSERT_EQ(train().code, 0);
  EXPECT_TRUE(has(train().err, "its schedule (cosine) ends with it")) << train().err;
  const auto longer = train("--set train.epochs=4");
  EXPECT_EQ(longer.code, 2);
  EXPECT_TRUE(has(longer.err, "train.epochs was 2, is 4, and the schedule spreads the learning rate")) << longer.err;
}

TEST_F(CliRunEnds, TellsOnceWhyItStoppedEarlyAndWhatTheLastLineMeans) {
  write("train: {epochs: 50, early_stop: {patience: 1, min_delta: 1000}}\n");
  const auto ran = train();
  EXPECT_EQ(ran.code, 0) << ran.err;
  const std::string all = ran.out + ran.err;
  const auto first = all.find("has not got better");
  ASSERT_NE(first, std::string::npos) << all;
  EXPECT_EQ(all.find("has not got better", first + 1), std::string::npos) << all;
  EXPECT_TRUE(has(ran.out, "samples/s on average")) << ran.out;
  EXPECT_TRUE(has(ran.out, "(mean of the last epoch)")) << ran.out;
  EXPECT_TRUE(has(train().err, "--set train.early_stop=null")) << train().err;
}

TEST_F(CliRunEnds, RanksThatStoppedEarlyAreFoundFinished) {
  write("train: {epochs: 50, early_stop: {patience: 1, min_delta: 1000}}\ndistribute: {workers: 2}\n");
  ASSERT_EQ(train().code, 0);
  const std::string before = summary();
  const auto again = train();
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(summary(), before);
  EXPECT_TRUE(has(again.err, "is finished: nothing was trained; train on without that by --set train.early_stop=null"))
      << again.err;
}

TEST_F(CliRunEnds, ARunPausedAfterAnEpochHasOneLineForIt) {
  write("train: {epochs: 3}\n");
  const auto ran = train("--pause-after 1");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_FALSE(has(ran.err, "epoch 2/3")) << ran.err;
  EXPECT_FALSE(has(ran.err, " 0 samples/s")) << ran.err;
  EXPECT_EQ(ran.err.find("epoch 1/3"), ran.err.rfind("epoch 1/3")) << ran.err;
}

TEST_F(CliRunEnds, PredictsWithTheNewestStateOfARun) {
  write("train: {epochs: 1}\n");
  ASSERT_EQ(train().code, 0);
  data::write_npy(folder_.path() / "x.npy", zeros({2, 1, 4, 4})).value();
  const auto saved = run("predict runs/job x.npy");
  EXPECT_EQ(saved.code, 0) << saved.err;
  EXPECT_EQ(saved.err, "");
  ASSERT_EQ(train("--set train.epochs=3 --pause-after 2").code, 0);
  const auto newer = run("predict runs/job x.npy");
  EXPECT_EQ(newer.code, 0) << newer.err;
  EXPECT_TRUE(has(newer.err, "was trained on since its model of step 4: taking its checkpoint of step 8")) << newer.err;
  EXPECT_NE(newer.out, saved.out);
  EXPECT_EQ(run("predict runs/job/model x.npy").out, saved.out) << "the saved model can still be named";
}

TEST_F(CliRunEnds, ListsTheStepsThereAreWhenACheckpointIsMissing) {
  write("train: {epochs: 2}\n");
  ASSERT_EQ(train().code, 0);
  const auto step = run("eval runs/job --checkpoint 3");
  EXPECT_EQ(step.code, 1);
  EXPECT_TRUE(has(step.err, "one of the steps 4, 8, got 3")) << step.err;
  const auto best = run("eval runs/job --checkpoint best");
  EXPECT_EQ(best.code, 1);
  EXPECT_TRUE(has(best.err, "--set train.best=accuracy") && has(best.err, "steps 4, 8")) << best.err;
}

TEST_F(CliRunEnds, AnInterruptedRunPredictsAndTellsWhatItIs) {
  write("train: {epochs: 1000000, checkpoint_every: 2}\n");
  const std::string program = testing::program_path().string();
  const std::string script = "cd '" + folder_.path().string() + "' && { '" + program +
                             "' train job.yaml --progress off 2>err & pid=$!; n=0; while [ ! -d runs/job/checkpoints ] "
                             "&& [ $n -lt 600 ]; do sleep 0.05; n=$((n+1)); done; kill -INT $pid; wait $pid; }";
  const int status = std::system(script.c_str());
  ASSERT_EQ(WEXITSTATUS(status), 130) << file_text(folder_.path() / "err");
  std::ofstream rows(folder_.path() / "rows.csv");
  for (int i = 0; i < 16; ++i) rows << (i ? "," : "") << i % 3;
  rows << "\n";
  rows.close();
  const auto predicted = run("predict runs/job rows.csv --json");
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_EQ(nlohmann::json::parse(predicted.out).size(), 1U);
  EXPECT_TRUE(has(predicted.err, "checkpoint of step")) << predicted.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs" / "job" / "model")) << "predicting writes nothing";
  const auto told = run("inspect run runs/job");
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_TRUE(has(told.out, "not finished") && has(told.out, "starling train runs/job")) << told.out;
}

TEST_F(CliRunEnds, AFinishedRunIsInspectedAsFinished) {
  write("train: {epochs: 1}\n");
  ASSERT_EQ(train().code, 0);
  EXPECT_TRUE(has(run("inspect run runs/job").out, "state         finished")) << run("inspect run runs/job").out;
}

}  // namespace
}  // namespace starling
