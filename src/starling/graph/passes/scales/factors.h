#pragma once

#include "starling/graph/graph.h"

namespace starling::graph {

// Factor of a product, seen through transposes of its last two dimensions: `value`, transposed or not.
struct Factor {
  ValueId value = -1;
  bool transposed = false;
  friend bool operator==(const Factor&, const Factor&) = default;
  Factor flipped() const { return {value, !transposed}; }
};

// True if a transpose node exchanges exactly the last two dimensions.
bool swaps_last_two(const Graph& graph, const Node& node);
Factor factor_of(const Graph& graph, ValueId id, bool transposed);
// Factors of a matmul; empty for other nodes.
struct Factors {
  Factor a, b;
};
Factors factors_of(const Graph& graph, const Node& node);

}  // namespace starling::graph
