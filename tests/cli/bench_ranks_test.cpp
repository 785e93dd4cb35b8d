#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace starling::testing {
namespace {

Ran bench_of_two(const std::string& arguments) {
  return run_starling("launch -n 2 -- '" + program_path().string() +
                      "' bench mlp --batch 4 --threads 1 --seconds 0.02 " + arguments);
}

TEST(CliBenchRanks, MeasureAStepTogether) {
  const auto ran = bench_of_two("--json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto line = nlohmann::json::parse(ran.out.substr(ran.out.find('{')));  // only rank 0 prints
  EXPECT_EQ(line.at("world"), 2);
  EXPECT_EQ(line.at("backend"), "shared");
  EXPECT_NEAR(line.at("samples_per_s").get<double>() * line.at("step_ms").get<double>() / 1e3, 8, 1e-6);
}

TEST(CliBenchRanks, RefuseWhatOneProcessDoesAlone) {
  const auto forward = bench_of_two("--phase forward");
  EXPECT_NE(forward.code, 0);
  EXPECT_TRUE(has(forward.err, "--phase train with 2 ranks")) << forward.err;
}

TEST(CliBenchRanks, AnswerRequestsWithTheirTimes) {
  const TestFolder folder("cli-bench-requests");
  const auto asked = folder.path() / "asked";
  std::ofstream(asked) << "3\n2\n";
  const auto ran = run_starling("bench mlp --batch 4 --threads 1 --on-request <'" + asked.string() + "'");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "\"steps\":3")) << ran.out;
  EXPECT_TRUE(has(ran.out, "\"steps\":2")) << ran.out;
  EXPECT_EQ(run_starling("bench mlp --on-request --explain").code, 2);
}

}  // namespace
}  // namespace starling::testing
