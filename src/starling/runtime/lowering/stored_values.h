#pragma once

#include <vector>

#include "starling/graph/graph.h"
#include "starling/kernels/kernel.h"

namespace starling::runtime {

// How the values of a program lie in memory on a GPU, where conversions between ops would cost a pass over memory each:
// - an f32 value that was or will be a 16-bit float is stored as one, if its maker and its readers convert on the fly;
//   the casts around it then cost nothing;
// - images lie with their channels last from a convolution on, until an op needs them otherwise.
// Inputs, variables and results of the program are dense and as typed. Views follow from what they are views of. Empty
// on other devices.
std::vector<kernels::ArgDesc> stored_values(const graph::Graph& graph, Device device);

}  // namespace starling::runtime
