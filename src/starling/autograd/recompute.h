#pragma once

#include "starling/autograd/transforms.h"

namespace starling {

// Gradient checkpointing: f(inputs), keeping only the inputs for the backward pass; f runs again when gradients arrive.
// Eager and inside compile(); nests.
//
// The second run repeats the first:
//  - random ops draw the same numbers;
//  - assigns are not repeated. The second run keeps their results private and reads them where f reads the variable
//    after assigning it;
//  - variables have their earlier values. Those that need no gradient (running statistics, counters, random keys) are
//    copied when the first run reads them; inputs and parameters are not: writing to one between the two runs is an
//    error that names it. When compiled, the graph knows every value of a variable, and nothing is copied or refused;
//  - training or evaluation mode must be unchanged, else an error.
// f must depend only on its inputs and on tensors read by ops. It is kept as long as the tape, so its captures by
// reference must live as long. Gradients flow to tensors that f captures as well as to inputs.
TensorList recompute(const TensorListFn& f, std::span<const Tensor> inputs);
Tensor recompute(const TensorFn& f, const Tensor& x);

}  // namespace starling
