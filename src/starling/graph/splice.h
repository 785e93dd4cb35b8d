#pragma once

#include "starling/graph/rewriter.h"

namespace starling {

// Appends the nodes of `part` to the rewriter's new graph, its inputs standing for `in`; returns what stands for its
// outputs. The part has no variables.
SmallVector<ValueId, 4> splice(Rewriter& rewriter, const Graph& part, std::span<const ValueId> in, NodeId like);

// The graph of an op's decomposition for operands of these types.
Graph decomposition(const OpDef& op, std::span<const TensorType> in, const Attrs& attrs);

}  // namespace starling
