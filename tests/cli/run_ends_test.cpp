#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "starling/data/formats/npy.h"
#include "starling/dist/ps/wire.h"
#include "starling/ops/api/creation.h"

namespace starling {
namespace {

using testing::file_text;
using testing::has;
using testing::run_starling_in;

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

TEST_F(CliRunEnds, AskingForFewerEpochsLeavesARunAsItIs) {
  write("train: {epochs: 2}\n");
  ASSERT_EQ(train().code, 0);
  const auto text = [&](const char* file) { return file_text(folder_.path() / "runs" / "job" / file); };
  const std::string job = text("job.yaml"), log = text("log.jsonl");
  for (const char* fewer :
       {"--set train.epochs=1", "--set train.steps=3", "--set train.epochs=1 --set distribute.workers=2"}) {
    const auto again = train(fewer);
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_TRUE(has(again.err, "runs/job is finished with 2 epochs (8 steps)")) << again.err;
    EXPECT_TRUE(has(again.err, "train longer by --set train.epochs=4")) << again.err;
  }
  EXPECT_EQ(text("job.yaml"), job);
  EXPECT_EQ(text("log.jsonl"), log);
}

TEST_F(CliRunEnds, AnUnfinishedRunThatWentFurtherStaysUnfinished) {
  write("train: {epochs: 5}\n");
  ASSERT_EQ(train("--pause-after 2").code, 0);
  const auto fewer = train("--set train.epochs=1");
  EXPECT_EQ(fewer.code, 0) << fewer.err;
  EXPECT_TRUE(has(fewer.err, "runs/job is not finished but has 2 epochs")) << fewer.err;
  EXPECT_TRUE(has(fewer.err, "`starling train runs/job` goes on")) << fewer.err;
  EXPECT_TRUE(has(run("inspect run runs/job").out, "not finished: step 8")) << run("inspect run runs/job").out;
}

TEST_F(CliRunEnds, ARunThatWentOnAfterItsSummaryIsToldByWhatIsNewest) {
  write("train: {epochs: 1}\n");
  ASSERT_EQ(train().code, 0);
  const std::string old = summary();
  ASSERT_EQ(train("--set train.epochs=3 --pause-after 2").code, 0);
  std::ofstream(folder_.path() / "runs" / "job" / "summary.json") << old;  // as if it had been killed then
  const auto told = run("inspect run runs/job");
  EXPECT_EQ(told.code, 0) << told.err;
  const auto newest = told.out.find("\nsteps         8\n"), older = told.out.find("\nsummary       of step 4, before");
  EXPECT_NE(newest, std::string::npos) << told.out;
  EXPECT_LT(newest, older) << told.out;
  EXPECT_NE(older, std::string::npos) << told.out;
  const auto listed = nlohmann::json::parse(run("runs --json").out);
  EXPECT_EQ(listed[0].at("steps"), 8);
}

TEST_F(CliRunEnds, ALossThatIsNoNumberTellsWhatToTry) {
  const auto ran = train("--set optimizer.lr=1e30");
  EXPECT_EQ(ran.code, 1);
  for (const char* part :
       {"expected a finite loss", "a lower optimizer.lr than 1e+30", "train.clip_norm: 1", "train.finite_every: 1"})
    EXPECT_TRUE(has(ran.err, part)) << part << "\n" << ran.err;
  if (!dist::ps::has_wire()) return;
  const auto served = train("--set optimizer.lr=1e30 --set 'distribute={servers: 1, strategy: async}'");
  EXPECT_EQ(served.code, 1);
  EXPECT_TRUE(has(served.err, "a lower optimizer.lr than 1e+30)")) << "no clipping with servers: " << served.err;
}

TEST_F(CliRunEnds, TheReasonOfAFailureIsKeptWithTheRun) {
  const std::string reason = "expected a finite loss, got";
  for (const char* workers : {"1", "2"}) {
    const std::string more = std::string("--resume none --set optimizer.lr=1e30 --set distribute.workers=") + workers;
    EXPECT_EQ(train(more).code, 1);
    const std::string log = file_text(folder_.path() / "runs" / "job" / "log.jsonl");
    EXPECT_TRUE(has(log, reason)) << log;
    EXPECT_EQ(log.find("\"how\":\"failed\""), log.rfind("\"how\":\"failed\"")) << "one end: " << log;
    const auto inspected = run("inspect run runs/job");
    EXPECT_TRUE(has(inspected.out, reason)) << inspected.out;
    EXPECT_TRUE(has(inspected.out, "none: it failed")) << inspected.out;
    EXPECT_FALSE(has(inspected.out, "has not ended")) << inspected.out;
    EXPECT_TRUE(has(run("runs").out, "job failed: ") && has(run("runs").out, reason)) << run("runs").out;
    EXPECT_TRUE(has(run("runs --json").out, "\"failure\": \"")) << run("runs --json").out;
    EXPECT_EQ(run("report runs/job -o report.html").code, 0);
    EXPECT_TRUE(has(file_text(folder_.path() / "report.html"), reason));
  }
  EXPECT_EQ(train("--resume none").code, 0);
  EXPECT_FALSE(has(run("inspect run runs/job").out + run("runs").out, "failed")) << run("inspect run runs/job").out;
}

TEST_F(CliRunEnds, ARefusedJobIsNoFailureOfItsRun) {
  ASSERT_EQ(train().code, 0);
  EXPECT_EQ(train("--set optimizer.lr=0.5").code, 2);
  EXPECT_FALSE(has(run("runs").out, "failed")) << run("runs").out;
}

TEST_F(CliRunEnds, ARunIsEvaluatedFromAnotherFolder) {
  data::write_npy(folder_.path() / "x.npy", zeros({6, 3})).value();
  data::write_npy(folder_.path() / "y.npy", zeros({6}, DType::i64)).value();
  std::ofstream(folder_.path() / "job.yaml") << "model: {name: mlp, hidden: [4]}\n"
                                                "data: {name: npy, train: [x.npy, y.npy], test: [x.npy, y.npy]}\n";
  ASSERT_EQ(train().code, 0);
  std::filesystem::create_directories(folder_.path() / "other");
  const auto there = run_starling_in(folder_.path() / "other", "eval ../runs/job");
  EXPECT_EQ(there.code, 0) << there.err;
  EXPECT_TRUE(has(there.err, "relative paths of the job are taken from")) << there.err;
  EXPECT_EQ(there.out, run("eval runs/job").out);
  const auto on = run_starling_in(folder_.path() / "other", "train ../runs/job --progress off --set train.epochs=2");
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "other" / "runs")) << "it goes on where it is";
}

TEST_F(CliRunEnds, ASecondSignalEndsARunWithAWord) {
  // Steps that take long, so that the first signal is not acted on yet when the second comes.
  std::ofstream(folder_.path() / "job.yaml") << "model: {name: mlp, hidden: [1000, 1000]}\n"
                                                "data: {name: synthetic, train_samples: 400, batch: 200}\n"
                                                "train: {epochs: 100}\ndistribute: {slow: [1000]}\n";
  const std::string program = testing::program_path().string();
  const std::string script =
      "cd '" + folder_.path().string() + "' && { '" + program +
      "' train job.yaml --progress off 2>err & pid=$!; n=0; while [ ! -s runs/job/log.jsonl ] && "
      "[ $n -lt 600 ]; do sleep 0.05; n=$((n+1)); done; sleep 0.5; kill -INT $pid; sleep 0.2; "
      "kill -INT $pid; wait $pid; }";
  const int status = std::system(script.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
  EXPECT_TRUE(has(file_text(folder_.path() / "err"), "ended at once by a second signal"))
      << file_text(folder_.path() / "err");
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
