#pragma once

#include <functional>

#include "starling/tensor/tensor.h"

namespace starling::optim {

// Optimizers made on this thread during its lifetime have no memory for state that begins at 0 of the parameters that
// `which` is true for: a strategy will store it in pieces. Only such a strategy can train with them.
class DeferredState {
 public:
  using Which = std::function<bool(const Tensor& parameter)>;

  explicit DeferredState(Which which);
  ~DeferredState();
  DeferredState(const DeferredState&) = delete;
  DeferredState& operator=(const DeferredState&) = delete;

  static bool holds(const Tensor& parameter);  // the innermost scope's answer; false without any

 private:
  Which which_;
  const DeferredState* outer_;
};

}  // namespace starling::optim
