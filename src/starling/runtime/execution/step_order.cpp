#include "starling/runtime/execution/step_order.h"

#include <algorithm>
#include <functional>

namespace starling::runtime {
namespace {

bool overlap(const Touched& a, const Touched& b) {
  const std::less<> before;
  return a.bytes > 0 && b.bytes > 0 && before(a.begin, b.begin + b.bytes) && before(b.begin, a.begin + a.bytes);
}

bool ordered(const StepMemory& a, const StepMemory& b) {
  if (a.alone || b.alone || (a.large && b.large)) return true;
  return std::any_of(a.memory.begin(), a.memory.end(), [&](const Touched& one) {
    return std::any_of(b.memory.begin(), b.memory.end(),
                       [&](const Touched& other) { return (one.writes || other.writes) && overlap(one, other); });
  });
}

}  // namespace

std::vector<std::vector<int>> steps_before(std::span<const StepMemory> steps) {
  std::vector<std::vector<int>> before(steps.size());
  std::vector<std::vector<bool>> follows(steps.size());  // every earlier step that a step follows
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<bool>& mine = follows[i];
    mine.assign(i, false);
    for (std::size_t j = i; j-- > 0;) {
      if (mine[j] || !ordered(steps[j], steps[i])) continue;
      before[i].push_back(static_cast<int>(j));
      mine[j] = true;
      for (std::size_t k = 0; k < j; ++k) mine[k] = mine[k] || follows[j][k];
    }
    std::reverse(before[i].begin(), before[i].end());
  }
  return before;
}

}  // namespace starling::runtime
