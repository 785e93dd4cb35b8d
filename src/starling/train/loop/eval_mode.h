#pragma once

#include "starling/nn/module.h"

namespace starling::train {

// Scope that puts a network into eval mode and restores its mode at the end.
class EvalMode {
 public:
  explicit EvalMode(nn::Module& net) : net_(net), before_(net.training()) { net.eval(); }
  ~EvalMode() { net_.train(before_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  nn::Module& net_;
  bool before_;
};

}  // namespace starling::train
