#pragma once

#include <span>

#include "starling/tensor/tensor.h"

namespace starling::nn {

// A module that says itself how it is trained, because its loss needs what stands inside it: codes and their
// distribution, heads that only training has, decoding with the answers known. Found with dynamic_cast<OwnLoss*>;
// calling the module remains what it does after training.
class OwnLoss {
 public:
  virtual ~OwnLoss() = default;

  struct Outputs {
    Tensor loss;         // a weighted mean, one number
    Tensor prediction;   // what metrics look at
    Tensor target = {};  // what they hold it against; undefined: no such thing
    Tensor weight = {};  // of the mean: how much was counted, one number; undefined: one a sample
  };
  // `fields` are a batch as the module's recipe lists it.
  virtual Outputs own_loss(std::span<const Tensor> fields) = 0;
};

}  // namespace starling::nn
