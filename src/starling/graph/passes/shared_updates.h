#pragma once

#include "starling/graph/pass.h"

namespace starling::passes {

// Runs before partition: turns updates that ranks share by rows (ops/def/shared_update.h) into matmul_sgd, which
// partition splits that way. Applies to weights whose gradient is a product of factors with fewer elements over all
// ranks than the weight.
Graph shared_updates(const Graph& graph, const PassContext& context);

}  // namespace starling::passes
