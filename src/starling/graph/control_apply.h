#pragma once

#include <memory>

#include "starling/graph/graph.h"
#include "starling/ops/control.h"

namespace starling {

struct BodyHistory;

// A body and, where a gradient may be wanted, how it was traced (see body_trace.h).
struct Body {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const BodyHistory> history = nullptr;
};

// Control flow whose bodies are graphs already, applied in the trace that is going on (there must be one) to explicit
// operands (see ops/control.h), and recorded on the tape. The body fields of the attributes are set here. Where a
// gradient may be wanted the loops of static length also give the states that each trip began with, as further results.
TensorList apply_cond(const Body& then, const Body& otherwise, std::span<const Tensor> operands);
TensorList apply_while(WhileAttrs attrs, const Body& condition, const Body& body, std::span<const Tensor> operands);
TensorList apply_scan(ScanLoopAttrs attrs, const Body& body, std::span<const Tensor> operands);
TensorList apply_while_grad(WhileGradAttrs attrs, const Body& condition, const Body& body, const Body& backward,
                            std::span<const Tensor> operands);

// Applies all nodes of a body to other inputs, so that they run, are traced and recorded again; returns its outputs.
TensorList apply_body(const Graph& body, std::span<const Tensor> inputs);

}  // namespace starling
