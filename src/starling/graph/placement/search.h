#pragma once

#include <vector>

#include "starling/graph/placement/simulator.h"

namespace starling::graph {

// Local search for devices of groups that minimise the simulated makespan within the memory caps. `clusters` are sets
// of groups worth moving together (the layers of a model).
std::vector<int> search_devices(const TaskGraph& graph, const Simulator& simulator,
                                const std::vector<std::vector<int>>& clusters);

}  // namespace starling::graph
