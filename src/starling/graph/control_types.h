#pragma once

#include "starling/graph/graph.h"

namespace starling {

// What the bodies of control flow say about the nodes that name them.

// The types of a node's results. Those of control flow come from the bodies, which only the graph knows, so the graph
// asks here and not the op; every other op infers as it does anywhere. Throws "[while] expected …, got …".
Types infer_node(const Graph& graph, const OpDef& op, std::span<const TensorType> in, const Attrs& attrs);

// Whether a node does more than make its results, or draws random numbers, itself or in a body at any depth.
bool has_effects(const Graph& graph, const Node& node);
bool draws_random(const Graph& graph, const Node& node);
// Whether it acts on what is not in the graph (queues, files): such nodes keep their order.
bool acts_outside(const Graph& graph, const Node& node);

// How many nodes there are when every body is written out at each place that names it, which is what lowering does.
double written_out(const Graph& graph);

// The bodies that a node names, in the order of its attributes.
std::vector<std::shared_ptr<const Graph>> bodies_of(const Graph& graph, const Node& node);

// Where the parts of the operands of a loop begin and end.
struct LoopParts {
  std::size_t limit = 0;  // operands before the carry: 0, or 1 for the number of trips
  std::size_t carried = 0;
  std::size_t sliced = 0;
  std::size_t captures = 0;
  std::size_t first_carry() const { return limit; }
  std::size_t first_slice() const { return limit + carried; }
  std::size_t first_capture() const { return limit + carried + sliced; }
};
LoopParts loop_parts(const Attrs& attrs, std::size_t operands);  // of while (nothing sliced) and scan

}  // namespace starling
