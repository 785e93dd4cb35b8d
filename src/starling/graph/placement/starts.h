#pragma once

#include <vector>

#include "starling/graph/placement/tasks.h"

namespace starling {

// Devices of groups to begin a search from, each good where its assumption holds: all on one device, every task where
// it would end first and, where memory is capped, shared out by memory.
std::vector<std::vector<int>> starting_placements(const TaskGraph& graph);

}  // namespace starling
