#include "starling/zoo/zoo.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace starling::testing {
namespace {

TEST(CliZoo, ListsEveryNetwork) {
  const auto ran = run_starling("zoo");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const auto& name : zoo::nets().names()) EXPECT_NE(ran.out.find(name + " "), std::string::npos) << name;
}

TEST(CliZoo, ShowsTheOptionsOfOneAndTheNearestOfAnUnknownOne) {
  const auto ran = run_starling("zoo resnet_small");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const auto& setting : zoo::nets().all().at("resnet_small").settings) {
    EXPECT_NE(ran.out.find("\n  " + setting.key + " "), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find(setting.doc), std::string::npos) << ran.out;
  }
  const auto wrong = run_starling("zoo lenett");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("did you mean 'lenet'?"), std::string::npos) << wrong.err;
}

TEST(CliZoo, TheLineForAJobIsAJobThatIsAccepted) {
  const auto ran = run_starling("zoo gpt");
  const auto at = ran.out.find("model: ");
  ASSERT_NE(at, std::string::npos) << ran.out;
  const TestFolder folder("cli-zoo");
  std::ofstream(folder.path() / "job.yaml") << ran.out.substr(at) << "train: {folder: runs/x}\n";
  const auto checked = run_starling_in(folder.path(), "validate --no-data job.yaml");
  EXPECT_EQ(checked.code, 0) << checked.err;
}

TEST(CliZoo, TellsProgramsTheDefaults) {
  const auto nets = nlohmann::json::parse(run_starling("zoo lenet --json").out);
  ASSERT_EQ(nets.size(), 1U);
  EXPECT_EQ(nets[0].at("name"), "lenet");
  EXPECT_EQ(nets[0].at("options")[0].at("key"), "classes");
  EXPECT_EQ(nets[0].at("options")[0].at("default"), 10);
}

}  // namespace
}  // namespace starling::testing
