#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace starling::testing {
namespace {

// A table with two rows of 1e25, one of which must be told wrong: moments of Adam become infinite, while loss and
// weights stay finite.
class CliRollback : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream table(folder_.path() / "table.csv");
    table << "a,b,y\n";
    for (int row = 0; row < 96; ++row) {
      const double angle = 0.7 * row;
      if (row == 67 || row == 68) {
        table << "1e25,1e25," << (row == 67 ? "up\n" : "down\n");
      } else {
        table << fmt::format("{:.3f},{:.3f},{}\n", std::sin(angle), std::cos(angle),
                             std::sin(angle) > 0 ? "up" : "down");
      }
    }
    std::ofstream(folder_.path() / "job.yaml")
        << "model: {name: mlp, hidden: [16]}\ndata: {name: csv, train: ['" << (folder_.path() / "table.csv").string()
        << "'], label: y, standardise: false, batch: 16, shuffle: false}\noptimizer: {name: adam}\n"
        << "train: {epochs: 2, checkpoint_every: 2, export: false}\n"
        << "distribute: {threads: 1, deterministic: true, shards: 4}\n";
  }
  Ran run(const std::string& command, const std::string& name, const std::string& more) const {
    return run_starling(command + " '" + (folder_.path() / "job.yaml").string() + "' --progress plain " + more +
                        " --set train.folder='" + (folder_.path() / name).string() + "'");
  }

  TestFolder folder_{"cli-rollback"};
};

TEST_F(CliRollback, EndsTheRunWhereTheStateIsNotFiniteAnyMore) {
  const Ran ran = run("train", "stopped", "");
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("expected finite weights and optimizer state, got an infinity or NaN on rank 0"),
            std::string::npos)
      << ran.err;
  EXPECT_NE(ran.err.find("at step 6 (it was finite after step 4"), std::string::npos) << ran.err;
}

TEST_F(CliRollback, IsTheSameInOneProcessOverThreadsAndOverProcesses) {
  std::string hash;
  const std::string back = "--set train.non_finite=rollback ";
  for (const auto& [command, more] : {std::pair<std::string, std::string>{"train", ""},
                                      {"train", "--set distribute.workers=2"},
                                      {"launch -n 2", ""}}) {
    const std::string name = fmt::format("back-{}-{}", command.substr(0, 3), more.size());
    const Ran ran = run(command, name, back + more);
    ASSERT_EQ(ran.code, 0) << command << more << ran.err;
    EXPECT_NE((ran.out + ran.err).find("step 5 is left out"), std::string::npos) << ran.err;
    const auto summary = nlohmann::json::parse(file_text(folder_.path() / name / "summary.json"));
    EXPECT_EQ(summary.at("rollbacks"), 4) << "each epoch one to find the step, one to leave it out";
    EXPECT_EQ(summary.at("skipped"), 2);
    EXPECT_EQ(summary.at("steps"), 12);
    if (hash.empty()) hash = summary.at("weights_hash");
    EXPECT_EQ(summary.at("weights_hash"), hash) << command << more;
  }
}

}  // namespace
}  // namespace starling::testing
