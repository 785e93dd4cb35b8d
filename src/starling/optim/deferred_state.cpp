#include "starling/optim/deferred_state.h"

#include <utility>

#include "starling/base/thread_context.h"

namespace starling::optim {
DeferredState::DeferredState(Which which)
    : which_(std::move(which)), outer_(std::exchange(thread_context().deferred, this)) {}

DeferredState::~DeferredState() { thread_context().deferred = outer_; }

bool DeferredState::holds(const Tensor& parameter) {
  const DeferredState* innermost = thread_context().deferred;
  return innermost != nullptr && innermost->which_(parameter);
}

Tensor without_memory(const Tensor& parameter) {
  Ref<TensorImpl> impl = new TensorImpl;
  impl->dtype = parameter.dtype();
  impl->shape = parameter.shape();
  impl->strides = contiguous_strides(impl->shape);
  impl->device = parameter.device();
  return Tensor(std::move(impl));
}

}  // namespace starling::optim
