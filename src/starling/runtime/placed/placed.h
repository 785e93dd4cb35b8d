#pragma once

#include <memory>

#include "starling/graph/placement/placement.h"
#include "starling/runtime/program.h"

namespace starling {

// Strategy that runs one program on several devices (logical CPUs, CPU and GPU): constraints are met, everything else
// is placed to minimise the simulated makespan. Each device runs its part in its own thread and order; a value is sent
// at most once to each device. Variables stay the container's plain tensors; on a device of another kind there is a
// synchronised copy. Results lie where the arguments do and equal those of one device, bit for bit if the devices use
// as many threads.
//   compile(f, {.strategy = placed({.devices = {{.device = kCpu}, {.device = {DeviceKind::cpu, 1}}},
//                                   .constraints = {{"net/fc2", {DeviceKind::cpu, 1}}}})})
std::shared_ptr<runtime::Strategy> placed(graph::PlacementOptions options);

// Multi-device program with access to its parts.
class PlacedProgram : public runtime::Program {
 public:
  virtual const graph::DevicePlacement& placement() const = 0;
  virtual int parts() const = 0;
  virtual const graph::Graph& part(int device) const = 0;  // by index in PlacementOptions::devices
  virtual std::size_t part_bytes(int device) const = 0;    // variables, arena and scratch
};
std::unique_ptr<PlacedProgram> build_placed(const graph::Graph& global, const Container& container,
                                            const runtime::BuildOptions& options,
                                            const graph::PlacementOptions& placement);

}  // namespace starling
