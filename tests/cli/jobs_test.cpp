#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/program.h"

namespace starling {
namespace {

using testing::file_text;
using testing::has;
using testing::run_starling;

std::vector<std::filesystem::path> examples() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(STARLING_SOURCE_FOLDER) / "examples")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

// A tiny job trained once for all tests of this file.
class CliJobs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TestFolder("cli-jobs");
    testing::write_tiny_fashion(folder_->path(), 200, 40);
    std::ofstream(job()) << "model: {name: mlp, hidden: [32]}\ndata: {folder: '" << folder_->path().string()
                         << "', batch: 20}\noptimizer: {lr: 0.05, momentum: 0.9}\ntrain: {epochs: 8, folder: '"
                         << run().string() << "', best: accuracy}\n";
    const auto trained = run_starling("train '" + job().string() + "' --progress off");
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::filesystem::path job() { return folder_->path() / "job.yaml"; }
  static std::filesystem::path run() { return folder_->path() / "run"; }
  static std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }
  static double accuracy(const std::string& arguments) {
    const auto ran = run_starling("eval " + arguments + " --json");
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out).at("metrics").at("test_accuracy").get<double>();
  }

  static testing::TestFolder* folder_;
};
testing::TestFolder* CliJobs::folder_ = nullptr;

TEST_F(CliJobs, EvaluatesARunAndTheModelItLeftAlike) {
  const auto summary = nlohmann::json::parse(file_text(run() / "summary.json"));
  const double told = summary.at("metrics").at("test_accuracy").get<double>();
  EXPECT_GT(told, 0.8);
  EXPECT_DOUBLE_EQ(accuracy(quoted(run())), told);
  EXPECT_DOUBLE_EQ(accuracy(quoted(run() / "model")), told);
  EXPECT_DOUBLE_EQ(accuracy(quoted(run() / "model") + " --data " + quoted(job())), told);
  EXPECT_GE(accuracy(quoted(run()) + " --checkpoint best"), told);
  EXPECT_EQ(run_starling("eval " + quoted(run()) + " --checkpoint 3").code, 1);
  EXPECT_EQ(run_starling("eval " + quoted(run()) + " --metrics acuracy").code, 2);
  EXPECT_EQ(run_starling("eval /nowhere").code, 2);
}

TEST_F(CliJobs, ExportsACheckpointAsAModel) {
  const auto out = folder_->path() / "exported";
  const auto ran = run_starling("export " + quoted(run()) + " -o " + quoted(out));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(file_text(out / "graph.txt"), file_text(run() / "model" / "graph.txt"));
  const auto listed = run_starling("inspect model " + quoted(out));
  EXPECT_TRUE(has(listed.out, "input       features f32[n, 784]")) << listed.out;
  EXPECT_TRUE(has(listed.out, "fc1.weight")) << listed.out;
  EXPECT_TRUE(has(run_starling("inspect model " + quoted(out) + " --graph").out, "starling-graph 1"));
}

TEST_F(CliJobs, PredictsClassesOfTablesAndWritesThem) {
  const auto rows = folder_->path() / "rows.csv";
  {
    std::ofstream out(rows);
    for (int row = 0; row < 3; ++row) {
      for (int i = 0; i < 784; ++i) out << (i ? "," : "") << (i / 28 / 3 == row ? 2.0 : -0.5);
      out << "\n";
    }
  }
  const std::string model = quoted(run() / "model");
  const auto ran = run_starling("predict " + model + " " + quoted(rows) + " --json --top 2");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto made = nlohmann::json::parse(ran.out);
  ASSERT_EQ(made.size(), 3U);
  for (int row = 0; row < 3; ++row) {
    EXPECT_EQ(made[static_cast<std::size_t>(row)].at("classes").size(), 2U);
    EXPECT_EQ(made[static_cast<std::size_t>(row)].at("classes")[0].at("index"), row);
  }
  for (const char* name : {"out.csv", "out.npy", "out.json"}) {
    const auto file = folder_->path() / name;
    EXPECT_EQ(run_starling("predict " + quoted(run()) + " " + quoted(rows) + " -o " + quoted(file)).code, 0);
    EXPECT_FALSE(file_text(file).empty()) << name;
  }
  EXPECT_EQ(run_starling("predict " + model + " " + quoted(rows) + " -o out.txt").code, 2);
  EXPECT_EQ(run_starling("predict " + model).code, 2);
  EXPECT_EQ(run_starling("predict " + model + " /nowhere.png").code, 2);
  EXPECT_EQ(run_starling("predict " + model + " --prompt x").code, 2);
  std::ofstream(rows) << "1,2,x\n";
  EXPECT_EQ(run_starling("predict " + model + " " + quoted(rows)).code, 1);
}

TEST_F(CliJobs, TellsWhatARunIs) {
  const auto ran = run_starling("inspect run " + quoted(run()));
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"mlp", "test_accuracy", "checkpoint    step 80", "best", "saved model"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
  EXPECT_EQ(run_starling("inspect run /nowhere").code, 2);
}

TEST_F(CliJobs, ValidatesAJobAndTellsAllThatIsWrongWithIt) {
  const auto good = run_starling("validate " + quoted(job()));
  EXPECT_EQ(good.code, 0) << good.err;
  for (const char* part : {"ok", "200 samples", "25450 parameters", "f32[20, 10]", "10 an epoch"})
    EXPECT_TRUE(has(good.out, part)) << part << "\n" << good.out;
  const auto steps = [&](const std::string& set) { return run_starling("validate " + quoted(job()) + set).out; };
  EXPECT_TRUE(has(steps(" --set data.batch=30"), "7 an epoch"));
  EXPECT_TRUE(has(steps(" --set data.batch=30 --set data.drop_last=true"), "6 an epoch"));
  EXPECT_TRUE(has(steps(" --set data.batch=30 --set train.accumulate=4"), "2 an epoch"));
  const auto metric = run_starling("validate " + quoted(job()) + " --set train.early_stop={metric:\\ acuracy}");
  EXPECT_EQ(metric.code, 2);
  EXPECT_TRUE(has(metric.err, "one of (test_accuracy")) << metric.err;
  const auto average = run_starling("validate " + quoted(job()) + " --set train.best=ema_accuracy");
  EXPECT_EQ(average.code, 2);
  EXPECT_TRUE(has(average.err, "train.average")) << average.err;
  const auto bad =
      run_starling("validate " + quoted(job()) + " --set trian.epochs=1 --set data.batch=0 --set optimizer.lr=x");
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(std::count(bad.err.begin(), bad.err.end(), '\n'), 3) << bad.err;
  EXPECT_TRUE(has(bad.err, "did you mean 'train'?")) << bad.err;
  const auto shape = run_starling("validate " + quoted(job()) + " --set model.inputs=783");
  EXPECT_EQ(shape.code, 2);
  EXPECT_TRUE(has(shape.err, "783")) << shape.err;
}

TEST_F(CliJobs, PrintsEveryValueAndWhereItCameFrom) {
  const auto ran = run_starling("print-config " + quoted(job()) + " --set optimizer.lr=0.5");
  EXPECT_EQ(ran.code, 0) << ran.err;
  std::istringstream lines(ran.out);
  std::string line;
  bool lr = false, batch = false, seed = false;
  while (std::getline(lines, line)) {
    lr = lr || (has(line, "optimizer.lr") && has(line, "0.5") && has(line, "--set optimizer.lr"));
    batch = batch || (has(line, "data.batch") && has(line, "20") && has(line, "job.yaml:2:"));
    seed = seed || (has(line, "train.seed") && has(line, "default"));
  }
  EXPECT_TRUE(lr && batch && seed) << ran.out;
  const auto yaml = run_starling("print-config " + quoted(job()) + " --yaml");
  const auto again = folder_->path() / "again.yaml";
  std::ofstream(again) << yaml.out;
  EXPECT_EQ(run_starling("print-config " + quoted(again) + " --yaml").out, yaml.out);
  EXPECT_EQ(run_starling("print-config").code, 2);
}

TEST(CliExamples, AllExamplesAreSoundJobs) {
  ASSERT_GE(examples().size(), 6U);
  for (const auto& file : examples()) {
    const auto ran = run_starling("validate --no-data '" + file.string() + "'");
    EXPECT_EQ(ran.code, 0) << file << ran.err;
  }
}

TEST(CliDocs, TheReferenceOfJobsIsWhatTheProgramSays) {
  const std::string text = file_text(std::filesystem::path(STARLING_SOURCE_FOLDER) / "docs" / "jobs.md");
  const std::string mark = "<!-- starling print-config --doc -->\n";
  const auto begin = text.find(mark);
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(text.substr(begin + mark.size()), run_starling("print-config --doc").out)
      << "run: starling print-config --doc, and put it after the mark in docs/jobs.md";
  // Every section of the reference is in the contents above it.
  std::istringstream lines(text.substr(begin));
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with("## ") && !line.starts_with("### ")) continue;
    std::string anchor = line.substr(line.find(' ') + 1);
    for (char& letter : anchor) letter = letter == ' ' ? '-' : static_cast<char>(std::tolower(letter));
    EXPECT_LT(text.find("](#" + anchor + ")"), begin) << line << " is not in the contents of docs/jobs.md";
  }
}

TEST(CliDocs, TheReferenceOfOpsIsWhatTheProgramSays) {
  EXPECT_EQ(file_text(std::filesystem::path(STARLING_SOURCE_FOLDER) / "docs" / "ops.md"),
            run_starling("ops --markdown").out)
      << "run: starling ops --markdown > docs/ops.md";
}

TEST(CliDocs, TheReferenceOfLayersIsWhatTheProgramSays) {
  EXPECT_EQ(file_text(std::filesystem::path(STARLING_SOURCE_FOLDER) / "docs" / "layers.md"),
            run_starling("layers --markdown").out)
      << "run: starling layers --markdown > docs/layers.md";
}

TEST(CliHelp, EveryCommandHasExamplesAndEndsWithZero) {
  for (const char* command : {"train",         "eval",          "predict",     "export",       "bench", "ops",
                              "inspect graph", "inspect model", "inspect run", "inspect data", "plot",  "validate",
                              "print-config",  "systems",       "verify",      "doctor",       "runs",  "sweep",
                              "lr-find",       "report",        "completion",  "zoo",          "layers"}) {
    const auto ran = run_starling(std::string(command) + " --help");
    EXPECT_EQ(ran.code, 0) << command;
    EXPECT_TRUE(has(ran.out, "Examples:\n  starling " + std::string(command))) << command << "\n" << ran.out;
    EXPECT_EQ(run_starling(std::string(command) + " --no-such-option").code, 2) << command;
  }
}

}  // namespace
}  // namespace starling
