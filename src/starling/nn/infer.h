#pragma once

#include <span>
#include <string>

#include "starling/nn/module.h"

namespace starling::nn {

// What a module makes of inputs of given types: its forward pass is traced, nothing runs and no random number is drawn.
std::vector<TensorType> output_types(Module& module, std::span<const TensorType> inputs);

// The same for one sample: types without the batch axis, which the module must keep in front.
TensorType sample_type(Module& module, std::span<const TensorType> samples);

// The type of a batch of samples.
TensorType batched(const TensorType& sample, std::int64_t batch);

}  // namespace starling::nn
