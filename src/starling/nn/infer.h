#pragma once

#include <span>
#include <string>

#include "starling/nn/module.h"

namespace starling::nn {

// Output types of a module for inputs of given types. Traces the forward pass; nothing runs and no random number is
// drawn.
std::vector<TensorType> output_types(Module& module, std::span<const TensorType> inputs);

// Output type for one sample: types without the batch axis, which the module must keep in front.
TensorType sample_type(Module& module, std::span<const TensorType> samples);

// Type of a batch of samples.
TensorType batched(const TensorType& sample, std::int64_t batch);

}  // namespace starling::nn
