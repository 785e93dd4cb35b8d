#pragma once

#include <vector>

#include "starling/runtime/execution/executable.h"

namespace starling::runtime {

// Background work that a program with deferred updates (graph/next_forward.h) may leave unfinished when a run returns,
// and what the next run must wait for.
struct DeferredSteps {
  // Number of comm-lane instructions that must have ended when a run returns: those that compute waits for, and all up
  // to the last that touches anything but the arena, constants and deferred variables.
  int awaited = 0;
  std::vector<bool> update{};  // by instruction: belongs to the updates of the previous run
  std::vector<int> earlier{};  // by instruction: comm instructions of the previous run that conflict in memory
};

DeferredSteps deferred_steps(const Executable& executable);

}  // namespace starling::runtime
