#include "starling/runtime/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace starling {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool overlap(const BufferUse& a, const BufferUse& b) { return a.first <= b.last && b.first <= a.last; }

std::vector<std::size_t> by_size(const std::vector<BufferUse>& uses) {
  std::vector<std::size_t> order(uses.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return uses[a].bytes > uses[b].bytes; });
  return order;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<BufferUse>& uses) {
  MemoryPlan plan{std::vector<std::size_t>(uses.size()), 0};
  std::vector<std::size_t> placed;  // in order of offset
  for (std::size_t i : by_size(uses)) {
    const std::size_t bytes = aligned(uses[i].bytes);
    std::size_t offset = 0;
    for (std::size_t other : placed) {
      if (!overlap(uses[i], uses[other])) continue;
      if (offset + bytes <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + aligned(uses[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](std::size_t o, std::size_t p) { return o < plan.offsets[p]; });
    placed.insert(at, i);
  }
  return plan;
}

std::size_t peak_demand(const std::vector<BufferUse>& uses) {
  std::size_t peak = 0;
  for (const auto& at : uses) {
    std::size_t live = 0;
    for (const auto& other : uses) {
      if (other.first <= at.first && at.first <= other.last) live += aligned(other.bytes);
    }
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace starling
