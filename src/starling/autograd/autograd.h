#pragma once

#include <span>

#include "starling/ops/def/apply.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct GradOptions {
  bool create_graph = false;  // record the backward pass too, for higher derivatives
  bool allow_unused = false;  // inputs that the outputs do not depend on get an empty handle, not zeros
};

// Gradients of sum(outputs · seeds) with respect to inputs, which need not be leaves. A seed left out is one, for an
// output of one element. Inputs that the outputs do not depend on get zeros. grad() slots are not touched. A gradient
// may be row-sparse (ops/api/row_sparse.h) unless create_graph is set.
TensorList gradients(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                     std::span<const Tensor> seeds = {}, const GradOptions& options = {});

// As gradients(), through nodes numbered `floor` or more only and without leaf hooks: for nodes that stand for a
// recorded region. Outputs that require no gradient and undefined seeds are skipped.
TensorList gradients_since(std::uint64_t floor, std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                           std::span<const Tensor> seeds, const GradOptions& options);

// Forward value whose gradient is being computed; -1 outside a backward pass. Set by the tape and read by tracers, so
// that every gradient node knows the forward node it came from.
int current_origin_value();

}  // namespace starling
