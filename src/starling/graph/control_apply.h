#pragma once

#include <memory>

#include "starling/graph/graph.h"
#include "starling/ops/control.h"

namespace starling {

using BodyPtr = std::shared_ptr<const Graph>;

// Control flow whose bodies are graphs already, applied in the trace that is going on (there must be one) to explicit
// operands (see ops/control.h), and recorded on the tape. The body fields of the attributes are set here. Where a
// gradient may be wanted the loops of static length also give the states that each trip began with, as further results.
TensorList apply_cond(const BodyPtr& then, const BodyPtr& otherwise, std::span<const Tensor> operands);
TensorList apply_while(WhileAttrs attrs, const BodyPtr& condition, const BodyPtr& body,
                       std::span<const Tensor> operands);
TensorList apply_scan(ScanLoopAttrs attrs, const BodyPtr& body, std::span<const Tensor> operands);
TensorList apply_while_grad(WhileGradAttrs attrs, const BodyPtr& condition, const BodyPtr& body,
                            const BodyPtr& backward, std::span<const Tensor> operands);

// Applies all nodes of a body to other inputs, so that they run, are traced and recorded again; returns its outputs.
TensorList apply_body(const Graph& body, std::span<const Tensor> inputs);

}  // namespace starling
