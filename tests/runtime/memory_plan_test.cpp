#include "starling/runtime/memory/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace starling::runtime {
namespace {

void expect_disjoint(const std::vector<BufferUse>& uses, const MemoryPlan& plan) {
  for (std::size_t a = 0; a < uses.size(); ++a) {
    for (std::size_t b = a + 1; b < uses.size(); ++b) {
      const bool together = uses[a].first <= uses[b].last && uses[b].first <= uses[a].last;
      if (!together || uses[a].bytes == 0 || uses[b].bytes == 0) continue;
      const bool apart =
          plan.offsets[a] + uses[a].bytes <= plan.offsets[b] || plan.offsets[b] + uses[b].bytes <= plan.offsets[a];
      EXPECT_TRUE(apart) << a << " and " << b;
    }
  }
}

TEST(MemoryPlan, BuffersInUseTogetherNeverOverlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<BufferUse> uses;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random() % 100);
      uses.push_back({random() % 5000, first, first + static_cast<int>(random() % 20)});
    }
    const MemoryPlan plan = plan_memory(uses);
    expect_disjoint(uses, plan);
    EXPECT_GE(plan.arena_bytes, peak_demand(uses));
    EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.5 * static_cast<double>(peak_demand(uses)));
  }
}

TEST(MemoryPlan, TrainingLikeLivesArePackedTightly) {
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    // Activations live from their layer to its gradient, temporaries for a moment.
    std::vector<BufferUse> uses;
    const int layers = 30;
    for (int i = 0; i < layers; ++i) {
      uses.push_back({(1 + random() % 64) << 12, 2 * i, 4 * layers - 2 * i});
      uses.push_back({(1 + random() % 64) << 12, 2 * i, 2 * i + 1});
      uses.push_back({(1 + random() % 64) << 12, 4 * layers - 2 * i - 1, 4 * layers - 2 * i + 1});
    }
    const MemoryPlan plan = plan_memory(uses);
    expect_disjoint(uses, plan);
    EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.05 * static_cast<double>(peak_demand(uses))) << round;
  }
}

TEST(MemoryPlan, LanesThatMayRunTogetherDoNotShare) {
  // Two lanes: b begins when nothing is known of lane 1, c when its first instruction has ended.
  const BufferUse a{1000, 0, 0, {0, 0}, {0, 1}}, b{1000, 1, 1, {0, 0}, {1, 0}}, c{1000, 2, 2, {1, 1}, {2, 1}};
  EXPECT_TRUE(in_use_together(a, b));
  EXPECT_FALSE(in_use_together(a, c));
  const MemoryPlan plan = plan_memory({a, b, c});
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.arena_bytes, 2048u);
}

TEST(MemoryPlan, OneAfterAnotherShareOnePlace) {
  const MemoryPlan plan = plan_memory({{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 5}});
  EXPECT_EQ(plan.arena_bytes, 1024u);
}

}  // namespace
}  // namespace starling::runtime
