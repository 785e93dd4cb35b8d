#include <nlohmann/json.hpp>

#include "cli/tiny_job.h"

namespace starling {
namespace {

using testing::has;
using testing::run_starling;

class CliRuns : public testing::TinyJob {
 protected:
  CliRuns() : TinyJob("cli-runs") {}
};

TEST_F(CliRuns, ListsRunsWithWhatDiffersAndHowTheyEnded) {
  ASSERT_EQ(train().code, 0);
  const std::string second = " --set optimizer.lr=0.5 --set train.folder=" + quoted(runs() / "second");
  ASSERT_EQ(train(second + " --pause-after 1").code, 0);
  const auto json = run_starling("runs " + quoted(runs()) + " --json --sort lr --descending");
  ASSERT_EQ(json.code, 0) << json.err;
  const auto rows = nlohmann::json::parse(json.out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("run"), "second");
  EXPECT_EQ(rows[0].at("state"), "interrupted");
  EXPECT_EQ(rows[0].at("epochs"), 1.0);
  EXPECT_EQ(rows[1].at("state"), "finished");
  EXPECT_EQ(rows[1].at("epochs"), 2.0);
  EXPECT_EQ(rows[1].at("optimizer.lr"), 0.02);
  EXPECT_TRUE(rows[1].at("test_accuracy").is_number());
  EXPECT_FALSE(rows[1].contains("data.batch"));
  const auto text = run_starling("runs " + quoted(runs()));
  for (const char* part : {"lr", "test_accuracy", "first", "interrupted"}) EXPECT_TRUE(has(text.out, part)) << text.out;
  const auto some = run_starling("runs " + quoted(runs()) + " --filter state=finished --csv");
  EXPECT_TRUE(has(some.out, "\nfirst,finished,") && !has(some.out, "\nsecond,")) << some.out;
}

TEST_F(CliRuns, AnOddLogOfOneRunLeavesTheOthersListed) {
  ASSERT_EQ(train().code, 0);
  std::filesystem::create_directories(runs() / "odd");
  std::ofstream(runs() / "odd" / "log.jsonl") << R"({"event": 5, "step": 1})"
                                              << "\n";
  const auto listed = run_starling("runs " + quoted(runs()));
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_TRUE(has(listed.out, "first") && has(listed.out, "odd")) << listed.out;
}

TEST_F(CliRuns, ARunWithoutALogIsNotToldByTheLogOfAnEarlierOne) {
  ASSERT_EQ(train("--pause-after 1").code, 0);
  ASSERT_EQ(train("--resume none --set monitor.jsonl=false").code, 0);
  const auto rows = nlohmann::json::parse(run_starling("runs " + quoted(runs()) + " --json").out);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("state"), "finished");
  EXPECT_EQ(rows[0].at("steps"), 10);
}

TEST_F(CliRuns, RefusesNamesItDoesNotKnowAndTellsAnEmptyFolder) {
  EXPECT_EQ(run_starling("runs /nowhere/at/all").code, 2);
  const auto empty = run_starling("runs " + quoted(folder_.path()));
  EXPECT_EQ(empty.code, 0);
  EXPECT_TRUE(has(empty.err, "no runs in")) << empty.err;
  EXPECT_EQ(run_starling("runs " + quoted(folder_.path()) + " --json").out, "[]\n");
  ASSERT_EQ(train().code, 0);
  const auto sort = run_starling("runs " + quoted(runs()) + " --sort tset_accuracy");
  EXPECT_EQ(sort.code, 2);
  EXPECT_TRUE(has(sort.err, "did you mean 'test_accuracy'?")) << sort.err;
}

TEST_F(CliRuns, AFolderOfRunsAndAJobAreToldFromARun) {
  ASSERT_EQ(train().code, 0);
  const auto folder = run_starling("inspect run " + quoted(runs()));
  EXPECT_EQ(folder.code, 2);
  EXPECT_TRUE(has(folder.err, "lists the run in it, as ") && has(folder.err, "(`starling runs ")) << folder.err;
  const auto job_given = run_starling("eval " + job());
  EXPECT_EQ(job_given.code, 2);
  EXPECT_TRUE(has(job_given.err, "(a job: `starling train ")) << job_given.err;
  const auto sorted = run_starling("runs " + quoted(runs()) + " --sort zebra");
  EXPECT_TRUE(has(sorted.err, "test_accuracy") && has(sorted.err, "and the settings of their jobs")) << sorted.err;
  EXPECT_FALSE(has(sorted.err, "data.batch")) << "hundreds of settings are not listed: " << sorted.err;
}

TEST_F(CliRuns, FiltersRefuseMistypedComparisonsAndTellThatNothingMatches) {
  ASSERT_EQ(train().code, 0);
  const auto filter = [&](const std::string& text) {
    return run_starling("runs " + quoted(runs()) + " --filter '" + text + "'");
  };
  const auto mistyped = filter("lr=>0.1");
  EXPECT_EQ(mistyped.code, 2);
  EXPECT_TRUE(has(mistyped.err, "got '=>' in 'lr=>0.1' (did you mean '>='?)")) << mistyped.err;
  EXPECT_EQ(filter("lr===0.1").code, 2);
  const auto none = filter("lr>5");
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_TRUE(has(none.err, "no run matches lr>5, of 1 in ")) << none.err;
}

TEST_F(CliRuns, OfMixedStrategiesShowsWhatDiffersAndHowToShowTheRest) {
  ASSERT_EQ(train().code, 0);
  ASSERT_EQ(train("--set distribute.strategy=local_sgd --set distribute.workers=2 --set train.folder=" +
                  quoted(runs() / "second"))
                .code,
            0);
  const auto text = run_starling("runs " + quoted(runs()));
  EXPECT_TRUE(has(text.out, "strategy") && has(text.out, "--settings NAME,NAME shows them")) << text.out;
  EXPECT_FALSE(has(text.out, "outer_momentum")) << text.out;
  EXPECT_TRUE(has(run_starling("runs " + quoted(runs()) + " --csv").out, "distribute.outer_momentum"));
  EXPECT_TRUE(has(run_starling("runs " + quoted(runs()) + " --settings outer_momentum").out, "outer_momentum"));
  const auto short_name = run_starling("runs " + quoted(runs()) + " --filter 'lr=0.02' --sort lr");
  EXPECT_EQ(short_name.code, 0) << "not ambiguous by distribute.outer_lr: " << short_name.err;
  EXPECT_TRUE(has(short_name.out, "first") && has(short_name.out, "second")) << short_name.out;
}

TEST_F(CliRuns, ARunPausedAfterAnEpochEndsWithTheSameWeights) {
  ASSERT_EQ(train().code, 0);
  const std::string other = "--set train.folder=" + quoted(runs() / "other");
  const auto paused = train(other + " --pause-after 1");
  ASSERT_EQ(paused.code, 0) << paused.err;
  EXPECT_TRUE(has(paused.out, "paused at step 5, after 1 of 2 epochs")) << paused.out;
  ASSERT_EQ(train(other).code, 0);
  const auto hash = [&](const char* name) {
    return nlohmann::json::parse(testing::file_text(runs() / name / "summary.json")).at("weights_hash");
  };
  EXPECT_EQ(hash("first"), hash("other"));
}

// A run of a C++ program is one without job.yaml.
TEST_F(CliRuns, RunsOfProgramsAreTakenWithAJobThatHasTheNetwork) {
  ASSERT_EQ(train().code, 0);
  std::filesystem::remove(run() / "job.yaml");
  const auto inspected = run_starling("inspect run " + of_run());
  EXPECT_EQ(inspected.code, 0) << inspected.err;
  EXPECT_TRUE(has(inspected.out, "made by a C++ program") && has(inspected.out, "weights_hash")) << inspected.out;
  for (const std::string command : {"eval ", "export "}) {
    const auto refused = run_starling(command + of_run());
    EXPECT_EQ(refused.code, 2);
    EXPECT_TRUE(has(refused.err, "give --job JOB.yaml")) << refused.err;
    EXPECT_EQ(run_starling(command + of_run() + " --job " + job()).code, 0);
  }
  EXPECT_TRUE(std::filesystem::exists(run() / "model" / "model.json"));
  EXPECT_TRUE(has(run_starling("report " + of_run()).err, "--job"));
  EXPECT_EQ(run_starling("report " + of_run() + " --job " + job()).err, "");
}

}  // namespace
}  // namespace starling
