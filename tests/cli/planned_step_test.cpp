// The memory of a step as `starling bench NET --explain` tells it, without taking it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "cli/program.h"

namespace starling::testing {
namespace {

struct Told {
  double all = 0, variables = 0, arena = 0, operands = 0;  // MB
};

Told told_by(const std::string& arguments) {
  const auto result = run_starling("bench " + arguments + " --explain");
  EXPECT_EQ(result.code, 0) << result.err;
  const std::regex line(
      "memory: ([0-9.]+) MB: variables ([0-9.]+) MB, arena and scratch ([0-9.]+) MB, batch and "
      "results ([0-9.]+) MB");
  std::smatch found;
  if (!std::regex_search(result.out, found, line)) {
    ADD_FAILURE() << "no line of memory in\n" << result.out;
    return {};
  }
  return {std::stod(found[1]), std::stod(found[2]), std::stod(found[3]), std::stod(found[4])};
}

TEST(PlannedStep, TellsWhatAMeasurementFinds) {
  for (const std::string phase : {"train", "forward"}) {
    const std::string step = "mlp --batch 32 --threads 1 --phase " + phase;
    const Told told = told_by(step);
    const auto measured = run_starling("bench " + step + " --seconds 0 --json");
    ASSERT_EQ(measured.code, 0) << measured.err;
    const auto json = nlohmann::json::parse(measured.out);
    EXPECT_NEAR(told.variables, json["variable_bytes"].get<double>() / 1e6, 0.06) << phase;
    EXPECT_NEAR(told.arena, json["program_bytes"].get<double>() / 1e6, 0.06) << phase;
    EXPECT_NEAR(told.all, told.variables + told.arena + told.operands, 0.2) << phase;
  }
}

TEST(PlannedStep, IsThatOfNetworksThatNoMachineHolds) {
  const Told told = told_by("local_image --set maps=400 --set classes=10 --batch 2 --threads 1");
  EXPECT_GT(told.variables, 800e3) << "MB of weights and velocities";
}

}  // namespace
}  // namespace starling::testing
