#pragma once

#include "starling/graph/graph.h"

namespace starling::graph {

// One operand of a product, seen through transposes of its last two dimensions: `value`, transposed or not.
struct Multiplicand {
  ValueId value = -1;
  bool transposed = false;
  friend bool operator==(const Multiplicand&, const Multiplicand&) = default;
  Multiplicand flipped() const { return {value, !transposed}; }
};

// True if a transpose node exchanges exactly the last two dimensions.
bool swaps_last_two(const Graph& graph, const Node& node);
Multiplicand multiplicand_of(const Graph& graph, ValueId id, bool transposed);
// Operands of a matmul; empty for other nodes.
struct Multiplicands {
  Multiplicand a, b;
};
Multiplicands multiplicands_of(const Graph& graph, const Node& node);

}  // namespace starling::graph
