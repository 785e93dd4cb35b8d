#include "starling/train/monitor/json_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

using nlohmann::ordered_json;

ordered_json event(std::int64_t step, double loss) {
  return {{"event", "train"}, {"step", step}, {"epoch", 0.5}, {"seconds", 1.5}, {"loss", loss}};
}

TEST(JsonLog, WritesAnObjectALineInTheOrderGiven) {
  const testing::TemporaryFolder folder;
  auto log = JsonLog::open(folder / "run/log.jsonl", {}).value();
  log.write(event(1, 0.25)).value();
  log.write(event(2, NAN)).value();
  EXPECT_EQ(testing::read_text(folder / "run/log.jsonl"),
            "{\"event\":\"train\",\"step\":1,\"epoch\":0.5,\"seconds\":1.5,\"loss\":0.25}\n"
            "{\"event\":\"train\",\"step\":2,\"epoch\":0.5,\"seconds\":1.5,\"loss\":null}\n");
}

TEST(JsonLog, ResumingCutsLaterStepsAndATornLine) {
  const testing::TemporaryFolder folder;
  const auto file = folder / "log.jsonl";
  {
    auto log = JsonLog::open(file, {}).value();
    for (int step = 1; step <= 5; ++step) log.write(event(step, step)).value();
  }
  testing::write_text(file, testing::read_text(file) + "{\"event\":\"tra");
  JsonLog::open(file, 3).value().write(event(4, 40)).value();
  const auto log = read_run_log(folder.path()).value();
  std::vector<double> losses;
  for (const auto& point : log.find("loss")->points) losses.push_back(point.value);
  EXPECT_EQ(losses, (std::vector<double>{1, 2, 3, 40}));
}

TEST(JsonLog, ResumingKeepsEverythingBeforeTheStepWhenOnlyTheTailIsTorn) {
  const testing::TemporaryFolder folder;
  const auto file = folder / "log.jsonl";
  testing::write_text(file, event(1, 1).dump() + "\n" + event(2, 2).dump());  // no newline: torn
  JsonLog::open(file, 100).value().write(event(3, 3)).value();
  EXPECT_EQ(testing::read_text(file), event(1, 1).dump() + "\n" + event(3, 3).dump() + "\n");
}

TEST(JsonLog, ResumingBeforeAnEvaluationCutsThatToo) {
  const testing::TemporaryFolder folder;
  const auto file = folder / "log.jsonl";
  const auto lines_after = [&](bool evaluated) {
    testing::write_text(file, event(3, 1).dump() + "\n{\"event\":\"eval\",\"step\":3,\"test_accuracy\":0.5}\n");
    JsonLog::open(file, 3, evaluated).value();
    const std::string text = testing::read_text(file);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines_after(true), 2);
  EXPECT_EQ(lines_after(false), 1);
}

TEST(JsonLog, ResumingWithoutALogBeginsOne) {
  const testing::TemporaryFolder folder;
  JsonLog::open(folder / "log.jsonl", 7).value().write(event(8, 1)).value();
  EXPECT_EQ(read_run_log(folder.path()).value().find("loss")->points.at(0).step, 8);
}

TEST(JsonLog, BeginningAnewLeavesTheEarlierLogBeside) {
  const testing::TemporaryFolder folder;
  const auto file = folder / "log.jsonl";
  for (int run = 1; run <= 3; ++run) JsonLog::open(file, {}).value().write(event(run, run)).value();
  EXPECT_EQ(testing::read_text(file), event(3, 3).dump() + "\n");
  EXPECT_EQ(testing::read_text(folder / "log-before-1.jsonl"), event(1, 1).dump() + "\n");
  EXPECT_EQ(testing::read_text(folder / "log-before-2.jsonl"), event(2, 2).dump() + "\n");
}

TEST(RunLog, ReadsSeriesInOrderAndKnowsEvaluations) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "log.jsonl",
                      R"({"event":"begin","step":0,"version":"0.1.0","resumed":false}
{"event":"train","step":10,"epoch":0.1,"seconds":2,"time":1e9,"loss":1.5,"lr":0.1}
{"event":"train","step":20,"epoch":0.2,"seconds":4,"time":1e9,"loss":null,"lr":0.1}
{"event":"eval","step":20,"epoch":1,"seconds":5,"time":1e9,"test_accuracy":0.75}
{"event":"tr)");
  const auto log = read_run_log(folder / "log.jsonl").value();
  EXPECT_EQ(log.names(), (std::vector<std::string>{"loss", "lr", "test_accuracy"}));
  const auto& loss = *log.find("loss");
  ASSERT_EQ(loss.points.size(), 2U);
  EXPECT_EQ(loss.points[0].step, 10);
  EXPECT_EQ(loss.points[0].epoch, 0.1);
  EXPECT_EQ(loss.points[0].seconds, 2);
  EXPECT_TRUE(std::isnan(loss.points[1].value));
  EXPECT_FALSE(loss.evaluated);
  EXPECT_TRUE(log.find("test_accuracy")->evaluated);
  EXPECT_EQ(log.find("accuracy"), nullptr);
}

TEST(RunLog, SaysWhatIsWrongAndWhere) {
  const testing::TemporaryFolder folder;
  const auto error = [&](const std::string& text) {
    testing::write_text(folder / "log.jsonl", text);
    return read_run_log(folder.path()).error();
  };
  EXPECT_NE(error("{\"step\":1}\nnot json\n{\"step\":2}\n").find("log.jsonl:2:"), std::string::npos);
  EXPECT_NE(error("[1]\n").find("log.jsonl:1:"), std::string::npos);
  EXPECT_NE(error("{\"loss\":1}\n").find("'step'"), std::string::npos);
  EXPECT_NE(error("{\"step\":1}\n" + std::string(3 << 20, 'x') + "\n").find("log.jsonl:2:"), std::string::npos);
  EXPECT_NE(read_run_log(folder / "nowhere").error().find("not there"), std::string::npos);
  const testing::TemporaryFolder empty;
  EXPECT_NE(read_run_log(empty.path()).error().find("has no log.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace starling::train
