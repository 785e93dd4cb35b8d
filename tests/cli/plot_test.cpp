#include <gtest/gtest.h>

#include <algorithm>

#include "cli/program.h"

namespace starling {
namespace {

using testing::file_text;
using testing::has;
using testing::run_starling;

class CliPlot : public ::testing::Test {
 protected:
  std::string run(const std::string& name, double scale) const {
    const auto folder = folder_.path() / name;
    std::filesystem::create_directories(folder);
    std::ofstream log(folder / "log.jsonl");
    for (int step = 10; step <= 200; step += 10)
      log << R"({"event":"train","step":)" << step << R"(,"epoch":)" << step / 100.0 << R"(,"seconds":)" << step * 2
          << R"(,"loss":)" << scale * 100 / (step + 20) << "}\n";
    for (int epoch = 1; epoch <= 2; ++epoch)
      log << R"({"event":"eval","step":)" << epoch * 100 << R"(,"epoch":)" << epoch << R"(,"seconds":)" << epoch * 200
          << R"(,"test_accuracy":)" << 0.8 + 0.05 * epoch << "}\n";
    return "'" + folder.string() + "'";
  }
  std::string file(const std::string& name) const { return (folder_.path() / name).string(); }

  testing::TestFolder folder_{"cli-plot"};
};

TEST_F(CliPlot, DrawsInTheTerminalByDefault) {
  const auto ran = run_starling("plot " + run("a", 1) + " --style plain --columns 70 --rows 10");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "loss  (last 0.4545)")) << ran.out;
  EXPECT_TRUE(has(ran.out, "test_accuracy  (last 0.9)")) << ran.out;
  EXPECT_TRUE(has(ran.out, "step")) << ran.out;
  EXPECT_FALSE(has(ran.out, "\x1b")) << ran.out;
  EXPECT_EQ(ran.err, "");
}

TEST_F(CliPlot, WritesSeveralRunsToSvg) {
  const std::string svg = file("curves.svg");
  const auto ran = run_starling("plot " + run("a", 1) + " " + run("b", 2) + " --metric loss,test_accuracy --x epoch" +
                                " --smooth 0.9 --title 'two runs' -o '" + svg + "'");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, svg + "\n");
  const std::string text = file_text(svg);
  for (const char* part : {"<svg ", "two runs", ">loss<", ">test_accuracy<", ">epoch<", ">a<", ">b<", "class=\"raw\""})
    EXPECT_TRUE(has(text, part)) << part;
}

TEST_F(CliPlot, SaysWhatIsMissingOrWrong) {
  const auto nothing = run_starling("plot '" + file("nowhere") + "'");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_TRUE(has(nothing.err, "nowhere, which is not there")) << nothing.err;
  std::filesystem::create_directories(folder_.path() / "empty");
  const auto no_run = run_starling("plot '" + file("empty") + "'");
  EXPECT_EQ(no_run.code, 2);
  EXPECT_TRUE(has(no_run.err, "has no log.jsonl")) << no_run.err;
  const auto metric = run_starling("plot " + run("a", 1) + " --metric test_acuracy");
  EXPECT_EQ(metric.code, 2);
  EXPECT_TRUE(has(metric.err, "did you mean 'test_accuracy'?")) << metric.err;
  std::ofstream(folder_.path() / "broken.jsonl") << "{\"step\":1,\"loss\":1}\nhello\n";
  const auto broken = run_starling("plot '" + file("broken.jsonl") + "'");
  EXPECT_EQ(broken.code, 2);
  EXPECT_TRUE(has(broken.err, "broken.jsonl:2:")) << broken.err;
  for (const auto& ran : {nothing, no_run, metric, broken})
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  EXPECT_EQ(run_starling("plot").code, 2);
  EXPECT_EQ(run_starling("plot " + run("a", 1) + " --smooth 1.5").code, 2);
  EXPECT_EQ(run_starling("plot " + run("a", 1) + " --x hours").code, 2);
}

TEST_F(CliPlot, TellsWhichRunLacksAMetricAndDrawsTheOthers) {
  std::filesystem::create_directories(folder_.path() / "young");
  std::ofstream(folder_.path() / "young" / "log.jsonl") << "{\"event\":\"train\",\"step\":1,\"loss\":2}\n{\"event\":";
  const auto ran = run_starling("plot " + run("a", 1) + " '" + file("young") + "' --style ascii");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "starling: young has no test_accuracy\n");
  EXPECT_TRUE(has(ran.out, "bbb young  loss 2")) << ran.out;
}

TEST_F(CliPlot, WritesSvgOnlyIntoWhatIsNamedSo) {
  for (const char* name : {"curves.png", "curves"}) {
    const auto ran = run_starling("plot " + run("a", 1) + " -o '" + file(name) + "'");
    EXPECT_EQ(ran.code, 2);
    EXPECT_TRUE(has(ran.err, "ends with .svg") && has(ran.err, "rsvg-convert")) << ran.err;
    EXPECT_FALSE(std::filesystem::exists(file(name)));
  }
}

TEST_F(CliPlot, FailsWhenThePictureCannotBeWritten) {
  const auto ran = run_starling("plot " + run("a", 1) + " -o '" + file("no/such/folder.svg") + "'");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.err, "folder.svg")) << ran.err;
}

}  // namespace
}  // namespace starling
