#include "starling/train/lr_find/lr_find.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "train/trainer_testing.h"

namespace starling::train {
namespace {

// A loss that is flat, falls fastest at 1e-2 and explodes after 1.
std::vector<LrPoint> made_ramp() {
  std::vector<LrPoint> points;
  for (int i = 0; i < 100; ++i) {
    const double lr = 1e-5 * std::pow(10, i * 6.0 / 99);
    const double fall = 2 - 1 / (1 + std::exp(-3 * std::log(lr / 1e-2)));
    const double loss = fall + (lr > 1 ? std::pow(lr, 2) : 0);
    points.push_back({lr, loss, loss});
  }
  return points;
}

TEST(LrFind, SuggestsWhereTheLossFallsFastest) {
  const auto suggested = suggest_lr(made_ramp());
  ASSERT_TRUE(suggested.has_value());
  EXPECT_NEAR(std::log10(*suggested), -2, 0.15);
}

TEST(LrFind, SuggestsNothingWhereTheLossDoesNotFall) {
  std::vector<LrPoint> flat, rising;
  for (int i = 0; i < 50; ++i) {
    flat.push_back({1e-4 * (i + 1), 2, 2});
    rising.push_back({1e-4 * (i + 1), 2.0 + i, 2.0 + i});
  }
  EXPECT_FALSE(suggest_lr(flat).has_value());
  EXPECT_FALSE(suggest_lr(rising).has_value());
  EXPECT_FALSE(suggest_lr({}).has_value());
}

Job tiny_job(const std::filesystem::path& folder) {
  return read_job(ConfigNode::parse(
      "model: {name: mlp}\ndata: {folder: " + folder.string() +
          ", batch: 20}\noptimizer: {momentum: 0.9, weight_decay: 0.02}\ntrain: {folder: " + (folder / "run").string() +
          "}\n",
      "job.yaml"));
}

TEST(LrFind, RampsTheRateUntilTheLossExplodesAndWritesNothing) {
  const testing::TestFolder folder("lr-find");
  testing::write_tiny_fashion(folder.path(), 100, 20);
  const LrFound found = find_lr(prepare_job(tiny_job(folder.path())), {.min = 1e-3, .max = 1e6, .steps = 60});
  ASSERT_GT(found.points.size(), 10U);
  EXPECT_TRUE(found.diverged);
  EXPECT_LT(found.points.size(), 60U);
  EXPECT_DOUBLE_EQ(found.points[0].lr, 1e-3);
  EXPECT_NEAR(found.points[2].lr / found.points[1].lr, std::pow(1e9, 1.0 / 59), 1e-9);
  ASSERT_TRUE(found.suggested.has_value());
  EXPECT_GT(*found.suggested, 1e-3);
  EXPECT_LT(*found.suggested, found.points.back().lr);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "run"));
  const Curve curve = lr_figure(found).panels.front().curves.front();
  EXPECT_EQ(curve.x.size(), found.points.size());
  EXPECT_LT(*std::max_element(curve.raw.begin(), curve.raw.end()), 2 * found.points.front().loss)
      << "an explosion is cut";
}

TEST(LrFind, StopsWhenAsked) {
  const testing::TestFolder folder("lr-find-stop");
  testing::write_tiny_fashion(folder.path(), 100, 20);
  const LrFound found = find_lr(prepare_job(tiny_job(folder.path())), {.stop = [] { return true; }});
  EXPECT_TRUE(found.interrupted);
  EXPECT_LE(found.points.size(), 1U);
}

}  // namespace
}  // namespace starling::train
