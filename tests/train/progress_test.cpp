#include "starling/train/loop/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "starling/base/error.h"

namespace starling::train {
namespace {

class ProgressTest : public ::testing::Test {
 protected:
  Progress make(ProgressMode mode, int columns = 200) {
    return Progress(
        {.mode = mode, .out = &out_, .columns = columns, .plain_every_s = 5, .now = [this] { return time_; }});
  }
  // One update every 10 ms, 10 samples each: 1000 samples a second.
  void run(Progress& progress, double seconds) {
    const int updates = static_cast<int>(seconds * 100 + 0.5);
    for (int i = 0; i < updates; ++i) {
      progress.update(state());
      time_ += 0.01;
      sample_ += 10;
    }
  }
  ProgressState state() const {
    return {.epoch = 1, .epochs = 3, .sample = sample_, .samples = 60000, .loss = 0.5, .metrics = metrics_};
  }
  auto count(char c) const {
    const std::string text = out_.str();
    return std::count(text.begin(), text.end(), c);
  }

  std::ostringstream out_;
  double time_ = 100;
  std::int64_t sample_ = 0;
  ProgressMetric metrics_[1] = {{"accuracy", 0.75}};
};

TEST_F(ProgressTest, RedrawsTheBarAtMostTenTimesASecond) {
  auto progress = make(ProgressMode::bar);
  run(progress, 3);
  EXPECT_GE(count('\r'), 25);
  EXPECT_LE(count('\r'), 30);
  EXPECT_EQ(count('\n'), 0);
  progress.finish(state());
  EXPECT_EQ(count('\n'), 1);
}

TEST_F(ProgressTest, WritesWholeLinesEveryFewSecondsOtherwise) {
  auto progress = make(ProgressMode::automatic);  // a stream in memory is no terminal
  EXPECT_EQ(progress.mode(), ProgressMode::plain);
  run(progress, 16);
  EXPECT_EQ(count('\n'), 3);
  EXPECT_EQ(count('\r'), 0);
  EXPECT_EQ(count('\x1b'), 0);
}

TEST_F(ProgressTest, TellsEpochRateTimeLeftLossAndMetrics) {
  auto progress = make(ProgressMode::plain);
  run(progress, 30.005);
  progress.finish(state());
  const std::string text = out_.str();
  const std::string last = text.substr(text.rfind('\n', text.size() - 2) + 1);
  EXPECT_EQ(last, "epoch 2/3  50%  1000 samples/s  ETA 1:30  loss 0.5  accuracy 0.75\n");
}

TEST_F(ProgressTest, MeasuresOnlyWhatThisRunDid) {
  sample_ = 30000;  // resumed here
  auto progress = make(ProgressMode::plain);
  run(progress, 6);
  EXPECT_NE(out_.str().find(" 1000 samples/s"), std::string::npos) << out_.str();
}

TEST_F(ProgressTest, SpeedsLeaveOutTheTimeOfEvaluations) {
  auto progress = make(ProgressMode::plain);
  run(progress, 6);
  time_ += 100;
  progress.leave_out(100);
  run(progress, 6);
  progress.finish(state());
  std::istringstream lines(out_.str());
  for (std::string line; std::getline(lines, line);) EXPECT_NE(line.find(" 1000 samples/s"), std::string::npos) << line;
}

TEST_F(ProgressTest, IsSilentWhenOff) {
  auto progress = make(ProgressMode::off);
  run(progress, 10);
  progress.finish(state());
  EXPECT_EQ(out_.str(), "");
  progress.note("disk full");
  EXPECT_EQ(out_.str(), "disk full\n");
}

TEST_F(ProgressTest, PutsNotesOnLinesOfTheirOwn) {
  auto progress = make(ProgressMode::bar);
  run(progress, 0.5);
  progress.note("disk full");
  EXPECT_TRUE(out_.str().ends_with("\r\x1b[Kdisk full\n"));
}

TEST_F(ProgressTest, BreaksNotesBetweenWordsWhereTheTerminalEnds) {
  const std::string note = "warning: no checkpoint of step 40: the save before it is still being written";
  auto drawn = make(ProgressMode::bar, 40);
  drawn.note(note);
  EXPECT_EQ(out_.str(), "warning: no checkpoint of step 40: the\nsave before it is still being written\n");
  out_.str("");
  auto plain = make(ProgressMode::plain, 40);  // a log file has no width
  plain.note(note);
  EXPECT_EQ(out_.str(), note + "\n");
}

TEST_F(ProgressTest, FitsTheTerminal) {
  sample_ = 30000;
  EXPECT_LE(format_progress(state(), 1000, 40).size(), 39U);
  EXPECT_EQ(format_progress(state(), 1000, 200).substr(0, 36), "epoch 2/3 [==========>         ]  50");
}

TEST_F(ProgressTest, ShowsWholeFieldsInTheOrderOfWhatMatters) {
  sample_ = 30000;
  const ProgressMetric metrics[] = {{"test_accuracy", 0.9123}, {"test_loss", 0.1234}};
  ProgressState now = state();
  now.lr = 0.01;
  now.metrics = metrics;
  const auto line = [&](int columns) { return format_progress(now, 1000, columns); };
  EXPECT_EQ(line(200),
            "epoch 2/3 [==========>         ]  50%  1000 samples/s  ETA 1:30  loss 0.5  test_accuracy 0.9123  "
            "test_loss 0.1234  lr 0.01");
  EXPECT_EQ(line(112),
            "epoch 2/3 [===>  ]  50%  1000 samples/s  ETA 1:30  loss 0.5  test_accuracy 0.9123  test_loss 0.1234  lr "
            "0.01");
  EXPECT_EQ(line(95), "epoch 2/3 [===>  ]  50%  1000/s  ETA 1:30  loss 0.5  test_accuracy 0.9123  test_loss 0.1234");
  EXPECT_EQ(line(80), "epoch 2/3 [===>  ]  50%  1000/s  ETA 1:30  loss 0.5  test_accuracy 0.9123");
  EXPECT_EQ(line(70), "epoch 2/3  50%  1000/s  ETA 1:30  loss 0.5  test_accuracy 0.9123");
  EXPECT_EQ(line(60), "epoch 2/3  50%  1000/s  ETA 1:30  loss 0.5");
  EXPECT_EQ(line(30), "epoch 2/3  50%  1000/s");
  EXPECT_EQ(line(5), "epoc");
}

TEST_F(ProgressTest, TellsTheEvaluatedLossFromTheLossOfTraining) {
  const ProgressMetric metrics[] = {{"accuracy", 0.75}, {"loss", 0.25}};
  ProgressState now = state();
  now.metrics = metrics;
  EXPECT_EQ(format_progress(now, 1000, 0),
            "epoch 2/3   0%  1000 samples/s  ETA 2:00  loss 0.5  accuracy 0.75  "
            "eval_loss 0.25");
}

TEST_F(ProgressTest, AnErrorFindsTheLineEnded) {
  {
    auto progress = make(ProgressMode::bar);
    run(progress, 0.5);
    EXPECT_FALSE(out_.str().ends_with("\n"));
  }
  EXPECT_TRUE(out_.str().ends_with("\n")) << "as when an exception unwinds";
}

TEST_F(ProgressTest, CutsBetweenCharactersNotWithinThem) {
  const ProgressMetric metrics[] = {{"größe", 1}};
  ProgressState now = state();
  now.metrics = metrics;
  for (int columns = 1; columns < 80; ++columns) {
    const std::string line = format_progress(now, 1000, columns);
    const auto characters = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
    EXPECT_LT(characters, columns);
    EXPECT_TRUE(line.empty() || (line.back() & 0xC0) != 0xC0) << columns;  // no lead byte without its rest
  }
}

TEST_F(ProgressTest, TellsWhatIsKnownOfAStream) {
  ProgressState now = state();
  now.samples = 0;
  now.sample = 700;
  EXPECT_EQ(format_progress(now, 1000, 0), "epoch 2/3 700 samples  1000 samples/s  ETA -  loss 0.5  accuracy 0.75");
}

TEST_F(ProgressTest, WritesOneJsonObjectALine) {
  auto progress = make(ProgressMode::json);
  run(progress, 11);
  progress.note("disk \"full\"");
  metrics_[0].value = std::numeric_limits<double>::quiet_NaN();
  progress.finish(state());
  std::istringstream lines(out_.str());
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].at("epoch"), 2);
  EXPECT_EQ(all[0].at("samples"), 60000);
  EXPECT_NEAR(all[0].at("samples_per_s").get<double>(), 1000, 1);
  EXPECT_EQ(all[0].at("metrics").at("accuracy"), 0.75);
  EXPECT_EQ(all[2], nlohmann::json({{"note", "disk \"full\""}}));
  EXPECT_TRUE(all[3].at("metrics").at("accuracy").is_null());
}

TEST(Progress, ShowsNoLossWhereNoStepHasBeenMade) {
  const ProgressState none{.epoch = 0, .epochs = 2, .sample = 50, .samples = 100, .loss = NAN};
  EXPECT_NE(format_progress(none, 10, 0).find("  loss -"), std::string::npos) << format_progress(none, 10, 0);
  EXPECT_TRUE(nlohmann::json::parse(format_progress_json(none, 10)).at("loss").is_null());
}

TEST(Progress, FormatsDurations) {
  EXPECT_EQ(format_duration(7.4), "0:07");
  EXPECT_EQ(format_duration(754), "12:34");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(-1), "-");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "-");
}

TEST(Progress, ReadsItsModes) {
  EXPECT_EQ(parse_progress_mode("auto"), ProgressMode::automatic);
  EXPECT_EQ(parse_progress_mode("bar"), ProgressMode::bar);
  EXPECT_EQ(parse_progress_mode("plain"), ProgressMode::plain);
  EXPECT_EQ(parse_progress_mode("json"), ProgressMode::json);
  EXPECT_EQ(parse_progress_mode("off"), ProgressMode::off);
  EXPECT_THROW(parse_progress_mode("plane"), Error);
}

}  // namespace
}  // namespace starling::train
