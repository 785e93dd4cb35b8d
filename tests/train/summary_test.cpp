#include "starling/train/run/summary.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

TEST(Summary, WritesEveryNumberOfTheRun) {
  const testing::TemporaryFolder folder;
  const Summary summary{.steps = 12,
                        .samples_per_s = 1000.5,
                        .loss = 0.25,
                        .metrics = {{"accuracy", 0.875}},
                        .peak_bytes = std::int64_t{1} << 40,
                        .weights_hash = "abc",
                        .wait_share = 0.01,
                        .skipped = 2};
  write_summary(folder / "runs/1", summary).value();
  const auto json = nlohmann::json::parse(testing::read_text(folder / "runs/1/summary.json"));
  const nlohmann::json expected = {{"steps", 12},
                                   {"samples_per_s", 1000.5},
                                   {"loss", 0.25},
                                   {"metrics", {{"accuracy", 0.875}}},
                                   {"peak_bytes", std::int64_t{1} << 40},
                                   {"weights_hash", "abc"},
                                   {"wait_share", 0.01},
                                   {"skipped", 2}};
  EXPECT_EQ(json, expected);
}

TEST(Summary, ReplacesAnOlderOneAndLeavesNothingBeside) {
  const testing::TemporaryFolder folder;
  write_summary(folder.path(), {.steps = 1}).value();
  write_summary(folder.path(), {.steps = 2, .loss = std::numeric_limits<double>::quiet_NaN()}).value();
  const auto json = nlohmann::json::parse(testing::read_text(folder / "summary.json"));
  EXPECT_EQ(json.at("steps"), 2);
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()),
            1);
}

TEST(Summary, TellsWhenItCannotBeWritten) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "file", "x");
  EXPECT_FALSE(write_summary(folder / "file/below", {}));
}

}  // namespace
}  // namespace starling::train
