#pragma once

namespace starling {

// A strategy whose programs may return before their updates are made, so that the exchange of gradients goes on while
// the next step runs forward. Steps follow each other without further ado. Whoever else reads or writes the parameters,
// the optimizer's state or gradient slots, or ends the communicator, calls finish() before: afterwards they are what
// the steps made so far have made of them, to the bit what they would be without. Cheap where there is nothing to do.
//
// Not collective: it waits for exchanges that every rank has begun. What has failed under way is thrown as a LateError
// (runtime/late_error.h) by the next step or by finish(), whichever comes first. Use from the thread that makes steps.
class LateUpdates {
 public:
  virtual ~LateUpdates() = default;
  virtual void finish() = 0;
};

}  // namespace starling
