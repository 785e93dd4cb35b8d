#pragma once

#include <cstdint>
#include <string>

#include "starling/graph/graph.h"

namespace starling {

// What the graph of a saved model may be: it computes its outputs from inputs and weights and does nothing else.
// Throws on nodes with effects (files, queues), on assigns, collectives, devices other than the CPU, and when all its
// values together have more than `most_bytes`.
void check_model_graph(const Graph& graph, std::uint64_t most_bytes);

}  // namespace starling
