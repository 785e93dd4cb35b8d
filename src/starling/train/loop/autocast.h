#pragma once

#include <optional>

#include "starling/tensor/interpreter.h"
#include "starling/train/loop/precision.h"

namespace starling::train {

// Autocast scope for the forward pass: products and convolutions of this thread compute in half precision. Their f32
// operands are converted, and results stay half until an op needs f32. Losses, norms, softmax and other reductions run
// in f32 (on a GPU batch norm gives 16 bits again where it is given them); elementwise, shape and pooling ops keep the
// dtype of their operands, f32 if they differ. Conversions are
// recorded for autograd, so gradients reach the f32 parameters. A no-op with Precision::f32.
class Autocast {
 public:
  explicit Autocast(Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  class Converter;
  std::unique_ptr<Converter> converter_;
  std::optional<InterpreterScope> scope_;
};

}  // namespace starling::train
