#pragma once

#include <span>

#include "starling/graph/graph.h"

namespace starling {

// What one application of an op takes: arithmetic, and memory moved if every operand is read once and every result
// written once.
struct Cost {
  double flops = 0;  // a multiply-add counts 2, every other operation on an element 1 (exp and the like too)
  double bytes_read = 0;
  double bytes_written = 0;

  double bytes() const { return bytes_read + bytes_written; }
  Cost& operator+=(const Cost& other);
};

struct CostCall {
  const OpDef& op;
  std::span<const TensorType> in;
  std::span<const TensorType> out;
  const Attrs& attrs;
};

// Sources, assigns and views move nothing. Ops without a rule of their own are counted by their decomposition, or as
// one operation an element.
Cost cost_of(const CostCall& call);
Cost cost_of(const Graph& graph, NodeId id);
Cost cost_of(const Graph& graph);  // of all its nodes

}  // namespace starling
