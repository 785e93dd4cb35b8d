#pragma once

#include <span>

#include "starling/graph/graph.h"

namespace starling::graph {

// Cost of one application of an op: arithmetic, and memory traffic if every operand is read once and every result
// written once.
struct Cost {
  double flops = 0;  // a multiply-add counts 2, every other operation per element 1 (exp too)
  double bytes_read = 0;
  double bytes_written = 0;

  double bytes() const { return bytes_read + bytes_written; }
  Cost& operator+=(const Cost& other);
};

// Estimated cost, by the rule of the op's definition (OpDef::cost). Sources, assigns and views move nothing. Ops
// without a rule are counted by their decomposition, or as one operation per element.
Cost cost_of(const CostCall& call);
Cost cost_of(const Graph& graph, NodeId id);
Cost cost_of(const Graph& graph);  // sum over all nodes

}  // namespace starling::graph
