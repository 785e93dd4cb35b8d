#pragma once

#include "starling/runtime/executable.h"

namespace starling {

// The plan of a node of control flow: its bodies as programs, with all the memory of their runs in the plan's scratch.
// Only the gradient of a while without a bound takes memory as it runs, for the states of trips whose number nobody
// knows before. All operands must be dense. On the CPU only; other devices are refused by name.
Planned plan_control(const Graph& graph, const Node& node, Device device, const ExecutableOptions& options);

}  // namespace starling
