#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/monitor/failure_log.h"
#include "starling/train/monitor/json_log.h"
#include "starling/train/runs/run_filter.h"
#include "starling/train/runs/run_table.h"
#include "train/trainer_testing.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

const std::string kBegin = R"({"event": "begin", "step": 0, "epoch": 0.0, "seconds": 0.0, "time": 1000.0})"
                           "\n";
const std::string kEval =
    R"({"event": "eval", "step": 5, "epoch": 1.0, "seconds": 2.5, "time": 1003.0, "test_accuracy": 0.5})"
    "\n";
std::string end_event(const std::string& how) {
  return R"({"event": "end", "step": 5, "epoch": 1.0, "seconds": 2.5, "time": 1004.0, "how": ")" + how + "\"}\n";
}

TEST(RunFilter, ComparesNumbersAsNumbersAndTextsByPatterns) {
  EXPECT_TRUE(RunFilter("lr>0.01").holds(0.1));
  EXPECT_FALSE(RunFilter("lr>0.01").holds(0.01));
  EXPECT_TRUE(RunFilter("lr >= 0.01").holds(0.01));
  EXPECT_TRUE(RunFilter("lr=1e-2").holds(0.01));
  EXPECT_TRUE(RunFilter("lr!=0.1").holds(0.01));
  EXPECT_TRUE(RunFilter("model.name=le*").holds("lenet"));
  EXPECT_FALSE(RunFilter("model.name!=le*").holds("lenet"));
  EXPECT_FALSE(RunFilter("lr<1").holds(nlohmann::json()));
  EXPECT_EQ(RunFilter(" state == finished").name(), "state");
  for (const char* wrong : {"lr", "=3", "lr!3", ""}) EXPECT_THROW(RunFilter{wrong}, Error) << wrong;
}

TEST(RunFilter, FindsAnUnambiguousEndOfAName) {
  const std::vector<std::string> known{"optimizer.lr", "test_accuracy", "model.name", "optimizer.name"};
  EXPECT_EQ(known_name("lr", known, "a column"), "optimizer.lr");
  EXPECT_EQ(known_name("accuracy", known, "a column"), "test_accuracy");
  EXPECT_THROW(known_name("name", known, "a column"), Error);
  try {
    known_name("test_acuracy", known, "a column");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'test_accuracy'?"), std::string::npos) << error.what();
  }
}

TEST(RunRecord, TellsHowARunEndedByItsLog) {
  const testing::TestFolder folder("runs-state");
  const auto state = [&](const std::string& log) {
    write(folder.path() / "a" / "log.jsonl", log);
    return read_run(folder.path() / "a").state;
  };
  EXPECT_EQ(state(kBegin + kEval + end_event("done")), RunEnd::finished);
  EXPECT_EQ(state(kBegin + kEval + end_event("failed")), RunEnd::failed);
  EXPECT_EQ(state(kBegin + kEval + end_event("stopped")), RunEnd::interrupted);
  EXPECT_EQ(state(kBegin + kEval), RunEnd::interrupted) << "killed";
  EXPECT_EQ(state(kBegin + end_event("stopped") + kBegin + kEval + end_event("done")), RunEnd::finished);
  const RunRecord record = read_run(folder.path() / "a");
  EXPECT_EQ(record.metrics.at("test_accuracy"), 0.5);
  EXPECT_EQ(record.started, 1000);
  EXPECT_EQ(record.seconds, 2.5);
}

TEST(RunRecord, ReadsWhatItCanOfADamagedRunAndTellsTheRest) {
  const testing::TestFolder folder("runs-damaged");
  write(folder.path() / "summary.json", "{\"steps\": 12, \"loss\": 0.5, \"metrics\": {\"accuracy\": 0.75}}");
  write(folder.path() / "job.yaml", "model: {name: no_such_net}\ntrain: {folder: x}\n");
  const RunRecord record = read_run(folder.path());
  EXPECT_EQ(record.state, RunEnd::finished);
  EXPECT_EQ(record.steps, 12);
  EXPECT_EQ(record.metrics.at("accuracy"), 0.75);
  EXPECT_NE(record.problem.find("no_such_net"), std::string::npos) << record.problem;
}

TEST(RunRecord, ALogOfAnEarlierRunDoesNotTellOfTheLastOne) {
  const testing::TestFolder folder("runs-old-log");
  write(folder.path() / "log.jsonl", kBegin + kEval + end_event("failed"));
  write(folder.path() / "summary.json",
        R"({"steps": 12, "loss": 0.25, "metrics": {"accuracy": 0.75}, "started": 2000})");
  const RunRecord last = read_run(folder.path());
  EXPECT_EQ(last.state, RunEnd::finished);
  EXPECT_EQ(last.steps, 12);
  EXPECT_EQ(last.metrics.at("accuracy"), 0.75);
  EXPECT_FALSE(last.metrics.contains("test_accuracy"));
  write(folder.path() / "summary.json", R"({"steps": 5, "loss": 0.25, "metrics": {}, "started": 999})");
  EXPECT_EQ(read_run(folder.path()).state, RunEnd::failed) << "the log goes on after the summary";
}

TEST(RunTable, HasShortFormsOfHugeNumbersAndReasonsOfFailures) {
  RunRecord huge{.folder = "runs/huge", .state = RunEnd::failed, .loss = 1e36, .samples_per_s = 123456.7};
  huge.failure = "[train] expected a finite loss";
  const RunTable table = make_run_table({huge}, "runs");
  EXPECT_NE(to_text(table).find(" 1e+36  "), std::string::npos) << to_text(table);
  EXPECT_NE(to_text(table).find(" 123457 "), std::string::npos) << to_text(table);
  ASSERT_EQ(table.failures.size(), 1U);
  EXPECT_EQ(table.failures[0].first, "huge");
  EXPECT_EQ(to_csv(table).find("finite"), std::string::npos) << "below the table, which it would make too wide";
  RunTableOptions all;
  all.all_settings = true;
  EXPECT_NE(to_csv(make_run_table({huge}, "runs", all)).find("finite"), std::string::npos);
}

TEST(RunRecord, KeepsTheReasonOfTheLastFailureAlone) {
  const testing::TestFolder folder("runs-failure");
  const auto log = folder.path() / "a" / "log.jsonl";
  write(log, kBegin + kEval + end_event("failed"));
  log_failure(folder.path() / "a", "a disk burnt").value();
  EXPECT_EQ(read_run(folder.path() / "a").failure, "a disk burnt");
  const auto events = read_run_events(folder.path() / "a").value();
  EXPECT_EQ(events.size(), 3U) << "the end without a reason gave way";
  EXPECT_EQ(events.back().at("step"), 5);
  log_failure(folder.path() / "a", "another").value();
  EXPECT_EQ(read_run_events(folder.path() / "a").value().size(), 4U) << "a reason is never lost";
  write(log, kBegin + kEval + end_event("done"));
  EXPECT_EQ(read_run(folder.path() / "a").failure, "");
}

TEST(RunRecord, OddFilesNeverThrow) {
  const testing::TestFolder folder("runs-odd");
  for (const std::string log :
       {R"({"event": 5, "step": 1, "time": "noon"})", R"({"event": "end", "step": 1, "how": {}, "epoch": "x"})"}) {
    write(folder.path() / "log.jsonl", log + "\n");
    for (const std::string summary :
         {R"({"interrupted": "no", "metrics": 3})", R"({"steps": [], "started": "x"})", "[]"}) {
      write(folder.path() / "summary.json", summary);
      EXPECT_NO_THROW(read_run(folder.path())) << log << summary;
    }
  }
}

TEST(RunRecord, FindsRunsAtAnyDepthButNotWithinRunsOrAmongJobs) {
  const testing::TestFolder folder("runs-find");
  write(folder.path() / "a/log.jsonl", kBegin);
  write(folder.path() / "deep/er/b/summary.json", "{}");
  write(folder.path() / "a/checkpoints/step-1/log.jsonl", kBegin);
  write(folder.path() / "a/model/summary.json", "{}");
  write(folder.path() / "jobs/job.yaml", "model: {name: mlp}");
  const auto found = find_runs(folder.path());
  EXPECT_EQ(found, (std::vector<fs::path>{folder.path() / "a", folder.path() / "deep/er/b"}));
  EXPECT_THROW(find_runs(folder.path() / "nowhere"), Error);
}

// The trainer of C++ writes no job.yaml: its settings are those that checkpoints keep.
TEST(RunRecord, FindsARunThatIsCalledAsAPartOfOne) {
  const testing::TestFolder folder("runs-called-model");
  write(folder.path() / "model" / "log.jsonl", kBegin);
  write(folder.path() / "model" / "model" / "log.jsonl", kBegin);
  EXPECT_EQ(find_runs(folder.path()), std::vector<std::filesystem::path>{folder.path() / "model"});
}

TEST(RunRecord, ReadsRunsOfTheTrainer) {
  const testing::TestFolder folder("runs-cpp");
  auto net = testing::small_net();
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
  Trainer trainer(net, optimizer, classify(), testing::quiet({.epochs = 2, .batch = 16, .folder = folder.path()}));
  trainer.add(starling::checkpoints({}));
  const auto fitted = trainer.fit(testing::points(64), testing::points(32, 7));
  const RunRecord record = read_run(folder.path());
  EXPECT_EQ(record.state, RunEnd::finished);
  EXPECT_EQ(record.steps, 8);
  EXPECT_EQ(record.settings.at("batch"), 16);
  EXPECT_EQ(record.metrics.at("accuracy"), fitted.summary.metrics.at("accuracy"));

  TrainerOptions stopping = testing::quiet({.epochs = 2, .batch = 16, .folder = folder.path() / "stopped"});
  stopping.stop = [] { return true; };
  Trainer(net, optimizer, classify(), stopping).fit(testing::points(64));
  EXPECT_EQ(read_run(folder.path() / "stopped").state, RunEnd::interrupted);
}

std::vector<RunRecord> three_runs() {
  std::vector<RunRecord> runs(3);
  for (std::size_t i = 0; i < 3; ++i) {
    runs[i].folder = "runs/" + std::string(1, static_cast<char>('a' + i));
    runs[i].state = i == 1 ? RunEnd::failed : RunEnd::finished;
    runs[i].settings = {{"optimizer.lr", 0.1 * static_cast<double>(i + 1)}, {"data.batch", 32}, {"train.folder", i}};
    runs[i].seconds = 100.0 * static_cast<double>(i + 1);
    runs[i].loss = runs[i].epochs = runs[i].samples_per_s = runs[i].started = NAN;
  }
  runs[0].metrics = {{"test_accuracy", 0.8}};
  runs[2].metrics = {{"test_accuracy", 0.9}};
  return runs;
}

TEST(RunTable, ShowsTheSettingsThatDifferAndSortsAndFilters) {
  const auto json = to_json(make_run_table(three_runs(), "runs", {.sort = "accuracy", .descending = true}));
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json[0].at("run"), "c");
  EXPECT_EQ(json[1].at("run"), "a");
  EXPECT_EQ(json[2].at("run"), "b") << "a run without the value is last";
  EXPECT_TRUE(json[2].at("test_accuracy").is_null());
  EXPECT_TRUE(json[0].contains("optimizer.lr"));
  EXPECT_FALSE(json[0].contains("data.batch")) << "all runs have the same";
  EXPECT_FALSE(json[0].contains("train.folder"));
  const auto some = to_json(make_run_table(three_runs(), "runs", {.filters = {"lr>=0.2", "state=finished"}}));
  ASSERT_EQ(some.size(), 1U);
  EXPECT_EQ(some[0].at("run"), "c");
  const auto chosen = to_json(make_run_table(three_runs(), "runs", {.settings = {"batch"}}));
  EXPECT_EQ(chosen[0].at("data.batch"), 32);
  EXPECT_FALSE(chosen[0].contains("optimizer.lr"));
  EXPECT_THROW(make_run_table(three_runs(), "runs", {.sort = "acuracy"}), Error);
  EXPECT_THROW(make_run_table(three_runs(), "runs", {.filters = {"momentum>0"}}), Error);
}

TEST(RunTable, WritesTextWithShortNamesAndCsvWithWholeNumbers) {
  const auto table = make_run_table(three_runs(), "runs");
  const std::string text = to_text(table);
  EXPECT_EQ(text.find("run  state"), 0U) << text;
  EXPECT_NE(text.find("  lr"), std::string::npos) << text;
  EXPECT_NE(text.find("3 min 20 s"), std::string::npos) << text;
  const std::string csv = to_csv(table);
  EXPECT_EQ(csv.find("run,state,optimizer.lr,"), 0U) << csv;
  EXPECT_NE(csv.find("c,finished,0.30000000000000004,"), std::string::npos) << csv;
}

}  // namespace
}  // namespace starling::train
