#pragma once

#include "starling/autograd/transforms.h"

namespace starling {

// f(inputs), of whose inner values nothing is kept for the backward pass: only the inputs are, and when gradients come
// back f is run again. At once and inside compile(); nests.
//
// The second run does what the first did:
//  - random ops draw the same numbers;
//  - assigns are not repeated. The second run keeps their results to itself and reads them where f reads the variable
//    after assigning it;
//  - variables hold what they held. Those that need no gradient (running statistics, counters, random keys) are copied
//    when the first run reads them; inputs and parameters are not: writing to one between the two runs is an error that
//    names it. Compiled, the graph knows every value a variable has had, and nothing is copied or refused;
//  - training or evaluation mode must be what it was: else an error.
// f must be a function of its inputs and of tensors read by ops; it is kept until the history is let go, so what it
// captures by reference must live as long. Gradients flow to tensors that f captures as well as to inputs.
TensorList recompute(const TensorListFn& f, std::span<const Tensor> inputs);
Tensor recompute(const TensorFn& f, const Tensor& x);

}  // namespace starling
