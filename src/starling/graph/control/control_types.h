#pragma once

#include "starling/graph/graph.h"

namespace starling::graph {

// Properties of nodes that depend on control-flow bodies.

// Result types of a node. Those of control flow come from the bodies, which only the graph knows; every other op infers
// its own. Throws "[while] expected …, got …".
Types infer_node(const Graph& graph, const OpDef& op, std::span<const TensorType> in, const Attrs& attrs);

// True if a node has effects or draws random numbers, itself or in a body at any depth.
bool has_effects(const Graph& graph, const Node& node);
bool draws_random(const Graph& graph, const Node& node);
// True if a node acts on something outside the graph (queues, files): such nodes keep their order.
bool acts_outside(const Graph& graph, const Node& node);
// True if a node communicates with other ranks, or a body of it does.
bool communicates(const Graph& graph, const Node& node);

// Number of nodes after inlining every body at each place that refers to it, as lowering does.
double written_out(const Graph& graph);

// Bodies that a node refers to, in the order of its attributes.
std::vector<std::shared_ptr<const Graph>> bodies_of(const Graph& graph, const Node& node);

// Ranges of a loop's operands: [limit], carry, slices, captures.
struct LoopParts {
  std::size_t limit = 0;  // operands before the carry: 0, or 1 for the trip limit
  std::size_t carried = 0;
  std::size_t sliced = 0;
  std::size_t captures = 0;
  std::size_t first_carry() const { return limit; }
  std::size_t first_slice() const { return limit + carried; }
  std::size_t first_capture() const { return limit + carried + sliced; }
};
LoopParts loop_parts(const Attrs& attrs, std::size_t operands);  // for while (nothing sliced) and scan

}  // namespace starling::graph
