#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "starling/train/job/job_run.h"
#include "starling/train/report/examine.h"
#include "starling/train/report/html.h"
#include "starling/train/report/run_report.h"
#include "starling/train/run/run_weights.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Html, EscapesTextAndEncodesBytes) {
  EXPECT_EQ(escape_html("a<b & \"c\">"), "a&lt;b &amp; &quot;c&quot;&gt;");
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("M"), "TQ==");
  EXPECT_EQ(base64("Ma"), "TWE=");
  EXPECT_EQ(base64("Man"), "TWFu");
  EXPECT_EQ(base64(std::string("\xff\xfe\xfd", 3)), "//79");
}

class Report : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_tiny_fashion(folder_.path(), 60, 30);
    job_ = read_job(ConfigNode::parse("model: {name: mlp}\ndata: {folder: " + folder_.path().string() +
                                          ", batch: 20}\noptimizer: {lr: 0.01}\ntrain: {folder: " +
                                          (folder_.path() / "run").string() + ", export: false}\n",
                                      "job.yaml"));
    TrainOptions options;
    options.progress.mode = ProgressMode::off;
    result_ = run_job(job_, options);
  }
  std::filesystem::path run() const { return folder_.path() / "run"; }

  testing::TestFolder folder_{"report"};
  Job job_;
  TrainResult result_;
};

TEST_F(Report, CountsEveryEvaluatedSampleAndShowsTheSurestMistakes) {
  const PreparedJob prepared = prepare_job(job_);
  load_weights(*prepared.net, load_run_checkpoint(run()).value());
  const Examined found = examine(prepared, 5);
  EXPECT_EQ(found.samples, 30);
  EXPECT_EQ(found.confusion.total(), 30);
  std::int64_t right = 0;
  for (std::int64_t c = 0; c < found.confusion.classes(); ++c) right += found.confusion.at(c, c);
  EXPECT_NEAR(static_cast<double>(right) / 30, result_.summary.metrics.at("test_accuracy"), 1e-9);
  ASSERT_EQ(found.wrong.size(), std::min<std::size_t>(5, static_cast<std::size_t>(30 - right)));
  ASSERT_FALSE(found.wrong.empty());
  for (std::size_t i = 0; i < found.wrong.size(); ++i) {
    const WrongExample& wrong = found.wrong[i];
    EXPECT_EQ(wrong.truth, wrong.index % 10);  // as the test data is written
    EXPECT_NE(wrong.truth, wrong.predicted);
    EXPECT_TRUE(wrong.png.starts_with("\x89PNG"));
    EXPECT_LE(wrong.confidence, found.wrong[i > 0 ? i - 1 : 0].confidence);
  }
}

TEST_F(Report, WritesOnePageThatNeedsNothingElse) {
  RunReport report = read_report(run());
  report.examined = Examined{.class_names = {"<shoe>"}};
  report.examined->wrong.push_back({.index = 7, .truth = 0, .predicted = 3, .confidence = 0.75, .png = "x"});
  const std::string page = to_html(report);
  for (const char* part : {"<h2>Curves</h2>", "<h2>Confusion matrix</h2>", "<h2>Examples that went wrong</h2>",
                           "<h2>Time line</h2>", "<h2>What ran where</h2>", "<h2>Job</h2>", "finished", "test_accuracy",
                           "&lt;shoe&gt;, not 3 (75 %)", "prefers-color-scheme: dark", "weights_hash", "compiler"})
    EXPECT_TRUE(has(page, part)) << part;
  EXPECT_TRUE(has(page, "data:image/png;base64,eA=="));
  EXPECT_FALSE(has(page, "<shoe>"));
  EXPECT_FALSE(has(page, "<script"));
  EXPECT_FALSE(has(page, "src=\"http"));
  EXPECT_FALSE(has(page, "href="));
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  EXPECT_TRUE(has(page, host.data()));
}

TEST_F(Report, TellsWhatARunLacks) {
  std::filesystem::remove(run() / "log.jsonl");
  std::filesystem::remove(run() / "job.yaml");
  const RunReport report = read_report(run());
  ASSERT_FALSE(report.notes.empty());
  EXPECT_TRUE(has(report.notes.front(), "log.jsonl")) << report.notes.front();
  EXPECT_TRUE(has(to_html(report), "Settings of the trainer"));
  EXPECT_THROW(read_report(folder_.path()), Error);
}

}  // namespace
}  // namespace starling::train
