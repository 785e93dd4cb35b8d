#pragma once

#include <string_view>

#include "starling/graph/graph.h"

namespace starling::graph {

// Inverse of print(); throws "[graph] line 3: expected …, got …". Variables have no tensors: bind them to a container.
Graph parse_graph(std::string_view text);

}  // namespace starling::graph
