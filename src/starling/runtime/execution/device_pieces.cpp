#include "starling/runtime/execution/device_pieces.h"

#include "starling/kernels/host_plan.h"

namespace starling::runtime {

std::vector<DevicePiece> device_pieces(BoundProgram& program) {
  std::vector<const BoundProgram::Step*> order(program.executable().instructions().size(), nullptr);
  for (const auto& lane : program.lanes()) {
    for (const auto& step : lane) order[program.position(step)] = &step;
  }
  std::vector<DevicePiece> pieces;
  for (const BoundProgram::Step* step : order) {
    const bool on_host = dynamic_cast<const kernels::HostPlan*>(step->plan) != nullptr;
    if (pieces.empty() || pieces.back().on_host != on_host) pieces.push_back({on_host, {}});
    pieces.back().steps.push_back(step);
  }
  return pieces;
}

}  // namespace starling::runtime
