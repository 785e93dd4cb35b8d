#pragma once

#include "starling/graph/graph.h"

namespace starling {

// Runs a control-flow node op by op, for interpret(). The reference for plan_control.
TensorList interpret_control(const Graph& graph, const Node& node, const TensorList& inputs);

}  // namespace starling
