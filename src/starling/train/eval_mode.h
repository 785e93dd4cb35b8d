#pragma once

#include "starling/nn/module.h"

namespace starling {

// A network in eval mode while this lives; then in the mode it was in.
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

}  // namespace starling
