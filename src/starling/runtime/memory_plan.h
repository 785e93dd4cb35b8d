#pragma once

#include <cstddef>
#include <vector>

namespace starling {

// A buffer that is in use from step `first` to step `last` of a program, both included.
struct BufferUse {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // of each buffer in one arena, 64-byte aligned
  std::size_t arena_bytes = 0;
};

// Places buffers so that those in use at the same time do not overlap: largest first, each at the lowest offset that is
// free.
MemoryPlan plan_memory(const std::vector<BufferUse>& uses);

// The most bytes in use at one step: no plan can do with less.
std::size_t peak_demand(const std::vector<BufferUse>& uses);

}  // namespace starling
