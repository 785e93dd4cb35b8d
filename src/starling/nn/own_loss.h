#pragma once

#include <span>

#include "starling/tensor/tensor.h"

namespace starling::nn {

// Module that defines its own training loss, because the loss needs values from inside: codes and their distribution,
// auxiliary heads, decoding with teacher forcing. Found with dynamic_cast<OwnLoss*>; a plain call of the module is
// inference.
class OwnLoss {
 public:
  virtual ~OwnLoss() = default;

  struct Outputs {
    Tensor loss;         // weighted mean, a scalar
    Tensor prediction;   // input of the metrics
    Tensor target = {};  // reference for the metrics; undefined: none
    Tensor weight = {};  // total weight behind the mean, a scalar; undefined: one per sample
  };
  // Computes the loss of a batch; `fields` are in the order of the module's recipe.
  virtual Outputs own_loss(std::span<const Tensor> fields) = 0;
};

}  // namespace starling::nn
