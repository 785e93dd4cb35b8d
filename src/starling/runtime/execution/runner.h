#pragma once

#include <memory>

#include "starling/runtime/execution/bound_program.h"

namespace starling::runtime {

// Runs the steps of a bound program in one mode. Operands have been put in; one call at a time.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void run() = 0;
  virtual void wait() {}    // until no thread of this runner is at work; throws nothing
  virtual void finish() {}  // completes updates that a run left to the next one
  virtual bool unfinished() const { return false; }
  virtual bool defers_updates() const { return false; }
};

// The mode that the program and the options of its instance ask for. The program must outlive the runner.
std::unique_ptr<Runner> make_runner(BoundProgram& program);

// One lane on the calling thread.
std::unique_ptr<Runner> make_serial_runner(BoundProgram& program);
// Part of a multi-device program: one lane, errors name the device and the op.
std::unique_ptr<Runner> make_part_runner(BoundProgram& program);
// Several lanes: the first on the calling thread, a thread for each other.
std::unique_ptr<Runner> make_lanes_runner(BoundProgram& program);
// Several lanes, of which the comm lane goes on when a run has returned; updates are made by the next run.
std::unique_ptr<Runner> make_deferred_runner(BoundProgram& program);
// A recording of the program on a device stream.
std::unique_ptr<Runner> make_device_runner(BoundProgram& program);

}  // namespace starling::runtime
