#pragma once

#include <cstdint>
#include <string>

#include "starling/graph/graph.h"

namespace starling::train {

// Verifies that a saved model's graph only computes outputs from inputs and weights. Throws on nodes with effects
// (files, queues), on assigns, collectives and devices other than the CPU, and if its values together have more than
// `most_bytes`.
void check_model_graph(const graph::Graph& graph, std::uint64_t most_bytes);

}  // namespace starling::train
