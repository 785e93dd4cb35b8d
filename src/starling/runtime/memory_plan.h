#pragma once

#include <cstddef>
#include <vector>

namespace starling {

// A buffer that is in use from step `first` to step `last` of a program, both included. Where a program has several
// lanes the steps are one order in which they may run, and two counts a lane say the rest: `born`, how many of its
// instructions have surely ended when the first use starts, and `ended`, how many must have ended when the last use is
// over.
struct BufferUse {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
  std::vector<int> born = {};
  std::vector<int> ended = {};
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // of each buffer in one arena, 64-byte aligned
  std::size_t arena_bytes = 0;
};

// Whether two buffers may be in use at the same time.
bool in_use_together(const BufferUse& a, const BufferUse& b);

// Places buffers so that those in use at the same time do not overlap. Several orders are tried (by size, by life, by
// both, by time), each buffer going to the lowest or to the tightest gap; what stands at the top of the best plan is
// then placed earlier, while that helps. The same uses give the same plan.
MemoryPlan plan_memory(const std::vector<BufferUse>& uses);

// The most bytes in use at one step: no plan can do with less.
std::size_t peak_demand(const std::vector<BufferUse>& uses);

}  // namespace starling
