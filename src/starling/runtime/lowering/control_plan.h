#pragma once

#include "starling/kernels/kernel_table.h"
#include "starling/runtime/execution/executable.h"

namespace starling {

// Plan of a control-flow node: its bodies as programs, with all memory of their runs in the plan's scratch. Only the
// gradient of an unbounded while allocates as it runs, for the states of an unknown number of trips. All operands must
// be dense. CPU only; other devices are refused by name.
Planned plan_control(const Graph& graph, const Node& node, Device device, const ExecutableOptions& options);

}  // namespace starling
