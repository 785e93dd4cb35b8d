#include "starling/optim/deferred_state.h"

#include <utility>

#include "starling/base/thread/thread_context.h"

namespace starling::optim {
DeferredState::DeferredState(Which which)
    : which_(std::move(which)), outer_(std::exchange(thread_context().deferred, this)) {}

DeferredState::~DeferredState() { thread_context().deferred = outer_; }

bool DeferredState::holds(const Tensor& parameter) {
  const DeferredState* innermost = thread_context().deferred;
  return innermost != nullptr && innermost->which_(parameter);
}

}  // namespace starling::optim
