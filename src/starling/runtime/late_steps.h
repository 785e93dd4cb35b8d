#pragma once

#include <vector>

#include "starling/runtime/executable.h"

namespace starling {

// What a turned program (graph/next_forward.h) may leave under way when a run returns, and what the next run must then
// wait for.
struct LateSteps {
  bool any = false;  // the program has late updates
  // Instructions of the comm lane that must have ended when a run returns: those that compute waits for, and all up to
  // the last that touches more than the arena and late variables.
  int awaited = 0;
  std::vector<bool> late{};    // by instruction: of the updates of the run before
  std::vector<int> earlier{};  // by instruction: so many of the comm lane of the run before must have ended first,
                               // since they write what it reads or use memory that it writes
};

LateSteps late_steps(const Executable& executable);

}  // namespace starling
