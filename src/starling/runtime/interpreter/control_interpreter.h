#pragma once

#include "starling/graph/graph.h"

namespace starling::runtime {

// Runs a control-flow node op by op, for interpret(). The reference for plan_control.
TensorList interpret_control(const graph::Graph& graph, const graph::Node& node, const TensorList& inputs);

}  // namespace starling::runtime
