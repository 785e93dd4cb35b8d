#pragma once

#include <vector>

#include "starling/runtime/execution/bound_program.h"

namespace starling::runtime {

// Consecutive steps of a device's program: recorded and launched together or, where they are kernels::HostPlan, run by
// the host once the pieces before them have been launched.
struct DevicePiece {
  bool on_host = false;
  std::vector<const BoundProgram::Step*> steps;
};

// Steps of all lanes in the order of the plan, which is an order in which they may run one after the other, cut around
// those of the host.
std::vector<DevicePiece> device_pieces(BoundProgram& program);

}  // namespace starling::runtime
