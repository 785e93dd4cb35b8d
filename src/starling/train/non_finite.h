#pragma once

namespace starling {

// What becomes of a step whose gradients, as the update would take them, hold an infinity or a NaN. All ranks that
// share an update see the same gradients, so they come to the same verdict in that very step.
//   automatic: stop where ranks make updates of their own. Where all share them nobody looks: the next loss, which is
//     everybody's too, ends the run, and updates may be made inside the products and exchanges that make the gradients
//   stop: the run ends with an error that names the step and the gradients; of one worker alone by its next loss
//   skip: nothing is updated, and the run goes on with the next batch
//   ignore: nobody looks; a loss that is not finite, one step later, ends the run. So it is on a GPU in any case.
enum class NonFinite { automatic, stop, skip, ignore };

}  // namespace starling
