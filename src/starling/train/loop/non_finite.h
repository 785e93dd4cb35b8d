#pragma once

namespace starling {

// Treatment of a step whose gradients, as the update would use them, hold an infinity or NaN. All ranks that
// share an update see the same gradients, so they reach the same verdict in the same step.
//   automatic: stop if ranks make separate updates. If they share updates, gradients are not checked: the next loss,
//     shared too, ends the run, and updates may be fused into the products and exchanges that make the gradients
//   stop: the run ends with an error naming the step and the gradients; a single worker is stopped by its next loss
//   skip: no update is made, and the run continues with the next batch
//   ignore: gradients are not checked; a non-finite loss, one step later, ends the run. Always so on a GPU.
enum class NonFinite { automatic, stop, skip, ignore };

}  // namespace starling
