#pragma once

#include <cstddef>
#include <vector>

namespace starling::runtime {

// Lifetime of a buffer: in use from step `first` to step `last` of a program, both included. In programs of several
// lanes the steps are one possible order, and two vector clocks complete the picture: `born`, the instructions that
// have surely ended when the first use starts, and `ended`, those that must have ended when the last use is over.
struct BufferUse {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
  std::vector<int> born = {};
  std::vector<int> ended = {};
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // by buffer, in one arena; 64-byte aligned
  std::size_t arena_bytes = 0;
};

// True if two buffers may be in use at the same time.
bool in_use_together(const BufferUse& a, const BufferUse& b);

// Places buffers so that those in use at the same time do not overlap. Tries several orders (by size, by lifetime, by
// both, by time), each buffer going to the lowest or to the tightest gap; then buffers at the top of the best plan are
// placed earlier, while that helps. Deterministic.
MemoryPlan plan_memory(const std::vector<BufferUse>& uses);

// Maximum of bytes in use at one step: a lower bound of any plan.
std::size_t peak_demand(const std::vector<BufferUse>& uses);

}  // namespace starling::runtime
