#pragma once

#include "starling/graph/graph.h"

namespace starling::graph {

// Checks the invariants of a graph, between passes: operands are made before they are read, types match inference,
// sources and assigns name what exists, control edges point backward, no value has two makers. Throws naming `stage`,
// node and rule.
void verify(const Graph& graph, std::string_view stage);

}  // namespace starling::graph
