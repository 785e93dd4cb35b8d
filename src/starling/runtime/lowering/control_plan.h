#pragma once

#include "starling/kernels/kernel_table.h"
#include "starling/runtime/execution/executable.h"

namespace starling::runtime {

// Plan of a control-flow node: its bodies as programs, with all memory of their runs in the plan's scratch. Only the
// gradient of an unbounded while allocates as it runs, for the states of an unknown number of trips. All operands must
// be dense. CPU only; other devices are refused by name.
kernels::Planned plan_control(const graph::Graph& graph, const graph::Node& node, Device device,
                              const ExecutableOptions& options);

}  // namespace starling::runtime
