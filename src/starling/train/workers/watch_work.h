#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>

#include "starling/runtime/compile.h"
#include "starling/train/callbacks/ready_made.h"

namespace starling::train {

// State of a worker before its next portion, or before it ends.
struct WorkState {
  CompiledFunction& program;  // that its portions run
  std::int64_t portions = 0;  // that it has done
  bool ended = false;
};
using WatchWork = std::function<void(const WorkState& work)>;

struct WatchWorkOptions {
  std::ostream* explain = nullptr;  // receives the program and its plan once; may be null
  TraceOptions trace{};             // of portions in place of steps; without a file: none
};
// Shows what a worker beside parameter servers runs. A trace that cannot be written is told on standard error.
WatchWork watch_work(const WatchWorkOptions& options);

}  // namespace starling::train
