#pragma once

#include <functional>
#include <span>

#include "starling/ops/apply.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct GradOptions {
  bool create_graph = false;  // record the backward pass too, so that the result can be differentiated again
};

// The gradients of sum(outputs · seeds) with respect to inputs, which need not be leaves; a seed left out is one, for
// an output of one element. Inputs that the outputs do not depend on get zeros. Touches no grad() slot.
TensorList gradients(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                     std::span<const Tensor> seeds = {}, const GradOptions& options = {});

// grad(f)(x) is the gradient at x of a function with one output element. It is itself differentiable: grad(grad(f)).
using TensorFn = std::function<Tensor(const Tensor&)>;
TensorFn grad(TensorFn f);

// The same for a function of several tensors.
using TensorsFn = std::function<Tensor(std::span<const Tensor>)>;
std::function<TensorList(std::span<const Tensor>)> grad_all(TensorsFn f);

// Which forward value the ops now being applied belong to: set by the tape while it runs a gradient, read by tracers,
// so that every gradient node knows the forward node it came from. -1 outside.
int current_origin_value();

}  // namespace starling
