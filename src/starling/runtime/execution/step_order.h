#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace starling::runtime {

// Memory that a step of a program touches.
struct Touched {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

struct StepMemory {
  std::vector<Touched> memory{};
  bool alone = false;  // after all steps before it, before all behind it
  // Fills the device by itself: such steps stay in their order, and small ones run beside them.
  bool large = false;
};

// By step, the earlier steps that must have ended before it: those that wrote what it touches or touched what it
// writes, less those that another of them is known to follow. Ascending.
std::vector<std::vector<int>> steps_before(std::span<const StepMemory> steps);

}  // namespace starling::runtime
