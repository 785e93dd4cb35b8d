#pragma once

#include <string_view>
#include <vector>

#include "starling/graph/pass.h"

namespace starling::graph {

// Pipelining across steps: the exchanges of a step run during the next step's forward pass. The graph is rotated: it
// begins with the updates of the previous step, each right before the first use of what it updates, continues with the
// forward and backward pass, and ends by starting the exchanges. Values that the updates take from the previous step
// are kept in extra variables, the deferred variables; all else that they read they update themselves.
//
// The nodes of the updates form the group kDeferredUpdates of Graph::targets. A first run skips them, and running them
// alone brings the variables up to date (Instance::finish).
inline constexpr std::string_view kDeferredUpdates = "deferred_updates";

bool is_deferred(
    const GraphVariable& variable);  // deferred variables get their tensors from the creator of the instance

// Passes of such programs: all_passes() with buckets ordered for it, and next_forward at the end.
const std::vector<Pass>& passes_for_next_forward();

namespace passes {
// Variant of buckets: reductions that results wait for go alone, and queued gradients go in the order in which the next
// forward pass needs their variables.
Graph buckets_by_first_use(const Graph& graph, const PassContext& context);
// Variant of fused_optimizer: joins only updates that wait for the same exchange.
Graph fused_optimizer_by_exchange(const Graph& graph, const PassContext& context);
// Rotates the step. Returns the graph unchanged if no exchange can outlive the step: results that need all gradients
// (their norm, an overflow check), no collectives, no comm lane, several compute lanes, devices other than the CPU.
Graph next_forward(const Graph& graph, const PassContext& context);
}  // namespace passes

}  // namespace starling::graph
