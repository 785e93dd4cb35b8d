#pragma once

namespace starling {

// Treatment of infinities and NaN: in the gradients, as the update would use them, in the loss, and in the state
// (weights, optimizer state), where the loss need not show them. The state is looked at every
// TrainerOptions::finite_every steps and before every checkpoint. All ranks that share an update see the same
// gradients, so they reach the same verdict in the same step; other verdicts are exchanged.
//   automatic: stop if ranks make separate updates. If they share updates, gradients are not checked: the next loss,
//     shared too, ends the run, and updates may be fused into the products and exchanges that make the gradients
//   stop: the run ends with an error naming the step and the gradients; a single worker is stopped by its next loss
//   skip: no update is made, and the run continues with the next batch; a state that is not finite ends it
//   rollback: the run goes back to its newest checkpoint and leaves the step out, a bounded number of times
//   ignore: gradients and state are not checked; a non-finite loss, one step later, ends the run. Gradients on a GPU
//   are
//     never checked.
enum class NonFinite { automatic, stop, skip, rollback, ignore };

}  // namespace starling
