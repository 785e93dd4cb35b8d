#pragma once

#include <memory>

#include "starling/runtime/execution/bound_program.h"

namespace starling::runtime {

// Runs the steps of a bound program in one mode. Operands have been put in; one call at a time.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void run() = 0;
};

// The mode that the program and the options of its instance ask for. The program must outlive the runner.
std::unique_ptr<Runner> make_runner(BoundProgram& program);

// One lane on the calling thread.
std::unique_ptr<Runner> make_serial_runner(BoundProgram& program);
// Part of a multi-device program: one lane, errors name the device and the op.
std::unique_ptr<Runner> make_part_runner(BoundProgram& program);
// Several lanes: the first on the calling thread, a thread for each other.
std::unique_ptr<Runner> make_lanes_runner(BoundProgram& program);
// A recording of the program on a device stream.
std::unique_ptr<Runner> make_device_runner(BoundProgram& program);

}  // namespace starling::runtime
