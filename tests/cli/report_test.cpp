#include "cli/tiny_job.h"

namespace starling {
namespace {

using testing::has;
using testing::run_starling;

class CliReport : public testing::TinyJob {
 protected:
  CliReport() : TinyJob("cli-report") {}
};

TEST_F(CliReport, WritesAPageWithMistakesAsPictures) {
  ASSERT_EQ(train("--set train.epochs=1").code, 0);
  const auto ran = run_starling("report " + of_run());
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, (run() / "report.html").string() + "\n");
  const std::string page = testing::file_text(run() / "report.html");
  for (const char* part : {"Confusion matrix", "data:image/png;base64,iVBOR", "<svg", "T-shirt", "model:"})
    EXPECT_TRUE(has(page, part)) << part;
}

TEST_F(CliReport, WritesThePageWithoutDataAndTellsWhy) {
  ASSERT_EQ(train().code, 0);
  std::filesystem::remove(folder_.path() / "t10k-images-idx3-ubyte");
  const auto ran = run_starling("report " + of_run());
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(has(ran.err, "no confusion matrix: ")) << ran.err;
  EXPECT_TRUE(has(testing::file_text(run() / "report.html"), "no confusion matrix: "));
  EXPECT_EQ(run_starling("report " + of_run() + " --no-data -o " + quoted(folder_.path() / "x.html")).err, "");
  EXPECT_FALSE(testing::file_text(folder_.path() / "x.html").empty());
  EXPECT_EQ(run_starling("report " + quoted(folder_.path())).code, 2);
}

}  // namespace
}  // namespace starling
