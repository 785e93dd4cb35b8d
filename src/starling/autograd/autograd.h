#pragma once

#include <span>

#include "starling/ops/apply.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct GradOptions {
  bool create_graph = false;  // record the backward pass too, so that the result can be differentiated again
  bool allow_unused = false;  // inputs that the outputs do not depend on get an empty handle instead of zeros
};

// The gradients of sum(outputs · seeds) with respect to inputs, which need not be leaves; a seed left out is one, for
// an output of one element. Inputs that the outputs do not depend on get zeros. Touches no grad() slot. A gradient may
// be row-sparse (ops/row_sparse.h) unless the graph is created.
TensorList gradients(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                     std::span<const Tensor> seeds = {}, const GradOptions& options = {});

// The same through nodes numbered `floor` or more only, without hooks of leaves: what a node that stands for a piece of
// history needs. Outputs that require no gradient are passed over, seeds left undefined too.
TensorList gradients_since(std::uint64_t floor, std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                           std::span<const Tensor> seeds, const GradOptions& options);

// Which forward value the ops now being applied belong to: set by the tape while it runs a gradient, read by tracers,
// so that every gradient node knows the forward node it came from. -1 outside.
int current_origin_value();

}  // namespace starling
