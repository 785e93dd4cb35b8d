#pragma once

#include <optional>

#include "starling/graph/graph.h"
#include "starling/ops/def/op_def.h"

namespace starling::graph {

// A norm whose statistics are of whole pictures, in ops that take pieces of their rows: sums over these, and what every
// element becomes. Nothing for other nodes.
std::optional<Graph> in_sums_over_rows(const Node& node, const Types& operands);

}  // namespace starling::graph
