#pragma once

#include "starling/graph/graph.h"

namespace starling::graph {

// Operations on the bodies of a graph, for passes.

// Drops bodies that no node refers to.
void drop_unused_bodies(Graph& graph);

// Deduplicates bodies with equal text, constants included.
void share_equal_bodies(Graph& graph);

// Drops unread stacked results of loops: states saved for a gradient that was not taken.
Graph trim_loops(const Graph& graph);

}  // namespace starling::graph
