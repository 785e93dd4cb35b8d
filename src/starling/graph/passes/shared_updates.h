#pragma once

#include "starling/graph/pass.h"

namespace starling::passes {

// Before partition: the updates that ranks share out by rows (ops/shared_update.h) become matmul_sgd, which partition
// cuts so. Weights are chosen whose gradient is the product of factors of which all ranks together hold fewer numbers.
Graph shared_updates(const Graph& graph, const PassContext& context);

}  // namespace starling::passes
