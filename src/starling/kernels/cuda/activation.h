#pragma once

#include "starling/kernels/cuda/device/gemm.h"
#include "starling/ops/def/symbol.h"

namespace starling::cuda {

// Activation that the end of a product applies, by its name.
inline device::Activation activation_of(Symbol symbol) {
  const auto& name = symbol.str();
  return name == "relu"      ? device::Activation::relu
         : name == "tanh"    ? device::Activation::tanh
         : name == "sigmoid" ? device::Activation::sigmoid
                             : device::Activation::none;
}

}  // namespace starling::cuda
