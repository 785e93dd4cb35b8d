#pragma once

#include <vector>

#include "starling/graph/placement/tasks.h"

namespace starling::graph {

// Initial placements for the search, each good under its own assumption: all on one device, every task where it would
// end first and, under memory caps, distributed by memory.
std::vector<std::vector<int>> starting_placements(const TaskGraph& graph);

}  // namespace starling::graph
