#pragma once

#include "starling/base/function_ref.h"
#include "starling/graph/rewriter.h"

namespace starling::graph {

// Inlines `part` into the rewriter's new graph, with `in` as its inputs; returns its outputs. The part has no
// variables.
SmallVector<ValueId, 4> splice(Rewriter& rewriter, const Graph& part, std::span<const ValueId> in, NodeId like);

// Graph of what a function does with operands of these types.
Graph traced(std::span<const TensorType> in, FunctionRef<TensorList(std::span<const Tensor>)> function);

// Graph of an op's decomposition for operands of these types.
Graph decomposition(const OpDef& op, std::span<const TensorType> in, const Attrs& attrs);

}  // namespace starling::graph
