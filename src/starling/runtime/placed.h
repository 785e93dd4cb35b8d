#pragma once

#include <memory>

#include "starling/graph/placement/placement.h"
#include "starling/runtime/program.h"

namespace starling {

// One program over several devices (logical CPUs, CPU and GPU): constraints are met, everything else goes where the
// simulated program ends first. Each device runs its own part in its own thread and order; values go from device to
// device once, whoever reads them. Variables stay the container's plain tensors; what lies on a device of another kind
// is a copy kept in step. Results lie where the arguments do and are those of one device, bit for bit where devices use
// as many threads.
//   compile(f, {.strategy = placed({.devices = {{.device = kCpu}, {.device = {DeviceKind::cpu, 1}}},
//                                   .constraints = {{"net/fc2", {DeviceKind::cpu, 1}}}})})
std::shared_ptr<Strategy> placed(PlacementOptions options);

// The same as a program of its own, for those who want to see its parts.
class PlacedProgram : public Program {
 public:
  virtual const DevicePlacement& placement() const = 0;
  virtual int parts() const = 0;
  virtual const Graph& part(int device) const = 0;       // by position in the options
  virtual std::size_t part_bytes(int device) const = 0;  // variables, arena and scratch
};
std::unique_ptr<PlacedProgram> build_placed(const Graph& global, const Container& container,
                                            const BuildOptions& options, const PlacementOptions& placement);

}  // namespace starling
