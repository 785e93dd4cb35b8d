#pragma once

#include "starling/graph/graph.h"

namespace starling {

// Parts of the pass `epilogues`, each one walk.
// A row that is added to a product, or a number a channel that is added to a convolution, becomes its bias. The
// products as they were are left without readers.
Graph join_biases(const Graph& graph, bool& changed);
// A residual that is added to a linear map and the elementwise op that follows end the map; where the value before that
// op is read by others (its gradient), it is a second result.
Graph join_linear_ends(const Graph& graph);

}  // namespace starling
