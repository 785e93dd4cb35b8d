#include "starling/runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace starling {
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

TEST(MemoryPlan, OneAfterAnotherShareOnePlace) {
  const MemoryPlan plan = plan_memory({{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 5}});
  EXPECT_EQ(plan.arena_bytes, 1024u);
}

}  // namespace
}  // namespace starling
