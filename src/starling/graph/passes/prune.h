#pragma once

#include "starling/graph/pass.h"

namespace starling::graph::passes {

// Drops nodes that no output or effect needs. Passes that leave nodes without readers end with it.
Graph prune(const Graph& graph, const PassContext& context);

}  // namespace starling::graph::passes
