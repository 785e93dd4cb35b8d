#include <gtest/gtest.h>

#include "cli/program.h"

namespace starling {
namespace {

using testing::run_starling;

std::vector<std::filesystem::path> presets() {
  const auto examples = std::filesystem::path(STARLING_SOURCE_FOLDER) / "examples";
  std::vector<std::filesystem::path> files;
  for (const auto& folder : {examples, examples / "systems"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".yaml") files.push_back(entry.path());
    }
  }
  return files;
}

// The job that print-config --yaml writes is the same: it says so itself, and its data decides as it did before.
TEST(CliWrittenJobs, EveryPresetWrittenOutIsTheSameJob) {
  const testing::TestFolder folder("cli-written-jobs");
  const auto again = folder.path() / "again.yaml";
  ASSERT_GE(presets().size(), 20U);
  for (const auto& file : presets()) {
    const auto written = run_starling("print-config '" + file.string() + "' --yaml");
    ASSERT_EQ(written.code, 0) << file << written.err;
    std::ofstream(again) << written.out;
    const auto checked = run_starling("validate --no-data '" + again.string() + "'");
    EXPECT_EQ(checked.code, 0) << file << checked.err;
    EXPECT_EQ(run_starling("print-config '" + again.string() + "' --yaml").out, written.out) << file;
  }
}

// A network whose sizes follow from the data is written without them; else the written job would contradict its data.
TEST(CliWrittenJobs, SizesThatTheDataDecidesStayOpen) {
  const testing::TestFolder folder("cli-open-sizes");
  std::ofstream(folder.path() / "job.yaml") << "model: {name: resnet_small, depth: 1}\n"
                                               "data: {name: synthetic, shape: [2, 12, 12], classes: 17}\n";
  const auto written = testing::run_starling_in(folder.path(), "print-config job.yaml --yaml");
  EXPECT_EQ(written.out.find("classes: 10"), std::string::npos) << written.out;
  std::ofstream(folder.path() / "again.yaml") << written.out;
  const auto first = testing::run_starling_in(folder.path(), "validate job.yaml");
  const auto second = testing::run_starling_in(folder.path(), "validate again.yaml");
  EXPECT_EQ(second.code, 0) << second.err;
  const auto told = [](const std::string& text) { return text.substr(text.find('\n')); };  // without the file's name
  EXPECT_EQ(told(second.out), told(first.out));
}

}  // namespace
}  // namespace starling
