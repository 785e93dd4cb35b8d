#pragma once

#include "starling/graph/graph.h"

namespace starling::graph {

// Parts of the pass `epilogues`, each one walk.
// Turns a row added to a product, or a number per channel added to a convolution, into its bias. The old products are
// left without readers.
Graph join_biases(const Graph& graph, bool& changed);
// Folds a residual added to a linear map and the following elementwise op into the map's epilogue; if the value before
// that op is read by others (its gradient), it is a second result.
Graph join_linear_epilogue(const Graph& graph);

}  // namespace starling::graph
