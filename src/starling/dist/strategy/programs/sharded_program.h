#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "starling/base/function_ref.h"
#include "starling/dist/strategy/state/sharded_state.h"
#include "starling/dist/strategy/state/state_plan.h"
#include "starling/graph/graph.h"
#include "starling/runtime/container.h"
#include "starling/tensor/named_tensor.h"

namespace starling::graph {
class Partitioner;
}

namespace starling::dist {

using CutsOfVariable = FunctionRef<AxisCuts(const Tensor& variable)>;

// Marks the reads of variables that are stored in pieces along an axis of the mesh, for the partition pass.
graph::Graph with_pieces(graph::Graph global, CutsOfVariable cuts, std::string_view axis);

// The program of a rank along all axes but `data`, of which inputs and results are whole: nodes compute on pieces of
// the variables that are split there, and of pictures where the plan splits those. Its variables have the types of
// these pieces. `seen` is shown what cut the program along an axis.
using SeenCut = std::function<void(std::string_view axis, const graph::Partitioner& cut)>;
graph::Graph along_model_axes(const graph::Graph& global, const StatePlan& plan, CutsOfVariable cuts, int rank,
                              const SeenCut& seen = {});

// Variables of a program of this rank: the piece in place of every tensor that is stored in pieces.
Container with_pieces(const Container& container, const ShardedState& sharded);

// Tensors of the list that have memory of their own: neither stored in pieces nor deferred.
std::vector<NamedTensor> with_memory(const std::vector<NamedTensor>& tensors);

// Bytes of the tensors that this rank stores.
std::size_t stored_bytes(const std::vector<NamedTensor>& tensors, const ShardedState& sharded);

}  // namespace starling::dist
