#pragma once

#include <algorithm>
#include <vector>

namespace starling::runtime {

// Vector clock: the number of instructions of each lane that have surely ended.
using LaneClock = std::vector<int>;

inline void merge(LaneClock& into, const LaneClock& other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

inline bool covers(const LaneClock& clock, const LaneClock& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) {
    if (clock[i] < other[i]) return false;
  }
  return true;
}

}  // namespace starling::runtime
