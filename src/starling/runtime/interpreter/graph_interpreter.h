#pragma once

#include <span>

#include "starling/graph/graph.h"
#include "starling/runtime/container.h"

namespace starling::runtime {

// Runs any graph op by op through the eager interpreter, with dynamic shapes: the reference that every pass and
// executable is compared with. Collectives see a world of one rank.
TensorList interpret(const graph::Graph& graph, const Container& container, std::span<const Tensor> inputs);

}  // namespace starling::runtime
