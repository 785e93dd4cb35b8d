#pragma once

#include "starling/graph/graph.h"

namespace starling {

// Runs a node of control flow op by op: what interpret() does with it. The reference for plan_control.
TensorList interpret_control(const Graph& graph, const Node& node, const TensorList& inputs);

}  // namespace starling
