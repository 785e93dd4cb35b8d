#pragma once

#include <vector>

#include "starling/graph/placement/simulator.h"

namespace starling {

// Devices of groups such that the simulated program stays within the caps and ends early. `clusters` are sets of groups
// worth moving together (the layers of a model).
std::vector<int> search_devices(const TaskGraph& graph, const Simulator& simulator,
                                const std::vector<std::vector<int>>& clusters);

}  // namespace starling
