#include "starling/optim/deferred_state.h"

#include <utility>

namespace starling::optim {
namespace {

thread_local const DeferredState* innermost = nullptr;

}  // namespace

DeferredState::DeferredState(Which which) : which_(std::move(which)), outer_(std::exchange(innermost, this)) {}

DeferredState::~DeferredState() { innermost = outer_; }

bool DeferredState::holds(const Tensor& parameter) { return innermost != nullptr && innermost->which_(parameter); }

}  // namespace starling::optim
