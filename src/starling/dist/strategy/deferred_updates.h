#pragma once

namespace starling::dist {

// Strategy whose programs may return before their updates are made, so that gradient exchange overlaps with the next
// forward pass. Consecutive steps need no extra call. Any other access to the parameters, the optimizer's state or
// gradient slots, and the end of the communicator, must be preceded by finish(): afterwards they are bitwise what they
// would be without deferred updates. Cheap if there is nothing to do.
//
// Not collective: finish() waits for exchanges that every rank has begun. A failure meanwhile is thrown as a
// DeferredError (runtime/execution/deferred_error.h) by the next step or by finish(), whichever comes first. Call from
// the thread that makes steps.
class DeferredUpdates {
 public:
  virtual ~DeferredUpdates() = default;
  virtual void finish() = 0;
};

}  // namespace starling::dist
