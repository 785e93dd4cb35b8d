#pragma once

#include <optional>

#include "starling/tensor/interpreter.h"
#include "starling/train/precision.h"

namespace starling {

// While it lives, products and convolutions of this thread compute in a half precision: their f32 operands are
// converted, and what they give stays half until an op that wants f32. Losses, norms, softmax and other reductions get
// f32; elementwise, shape and pooling ops take what comes, f32 where operands differ. The conversions are recorded, so
// that gradients reach the f32 parameters. Use it around the forward pass only. With Precision::f32 nothing happens.
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

}  // namespace starling
