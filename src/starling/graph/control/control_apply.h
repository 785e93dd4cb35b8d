#pragma once

#include <memory>

#include "starling/graph/graph.h"
#include "starling/ops/def/attrs/control.h"

namespace starling::graph {

struct BodyHistory;

// Body and, where a gradient may be wanted, its trace (see body_trace.h).
struct Body {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const BodyHistory> history = nullptr;
};

// Control flow with graphs as bodies, applied in the current trace (there must be one) to explicit operands (see
// ops/def/attrs/control.h) and recorded on the tape. The body fields of the attributes are set here. Where a gradient
// may be wanted, loops of static length also return the state at the start of each trip.
TensorList apply_cond(const Body& then, const Body& otherwise, std::span<const Tensor> operands);
TensorList apply_while(op::WhileAttrs attrs, const Body& condition, const Body& body, std::span<const Tensor> operands);
TensorList apply_scan(op::ScanLoopAttrs attrs, const Body& body, std::span<const Tensor> operands);
TensorList apply_while_grad(op::WhileGradAttrs attrs, const Body& condition, const Body& body, const Body& backward,
                            std::span<const Tensor> operands);

// Applies all nodes of a body to other inputs, so that they run, or are traced and recorded, again; returns its
// outputs.
TensorList apply_body(const Graph& body, std::span<const Tensor> inputs);

}  // namespace starling::graph
