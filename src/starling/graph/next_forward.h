#pragma once

#include <string_view>
#include <vector>

#include "starling/graph/pass.h"

namespace starling {

// A step whose exchanges go on while the next one runs forward. The graph of such a program is turned: it begins with
// the updates of the step before, each right before the first use of what it updates, goes on with the forward and
// backward pass, and ends by starting the exchanges. What the updates take from the step before lies in variables of
// the program's own, the late variables; whatever else they read they change themselves.
//
// The nodes of the updates form the group kLateUpdates of Graph::targets. A first run leaves them out, and running them
// alone brings everything up to date (Instance::finish).
inline constexpr std::string_view kLateUpdates = "late_updates";

bool is_late(const GraphVariable& variable);  // whoever makes an instance makes its tensor

// The passes of such programs: all_passes() with the order of the buckets chosen for it, and next_forward at the end.
const std::vector<Pass>& passes_for_next_forward();

namespace passes {
// As buckets, but what results wait for goes by itself, and gradients go in the order in which they will be used where
// they queue up: one that is ready goes before another that the next forward pass needs later.
Graph buckets_by_first_use(const Graph& graph, const PassContext& context);
// As fused_optimizer, but only updates that wait for the same exchange are joined.
Graph fused_optimizer_by_exchange(const Graph& graph, const PassContext& context);
// Turns the step. The graph as it was where no exchange can outlive it: results that need all gradients (their norm, a
// verdict on them), no collectives, no lane for them, several compute lanes, other devices than the CPU.
Graph next_forward(const Graph& graph, const PassContext& context);
}  // namespace passes

}  // namespace starling
