#pragma once

#include "starling/graph/graph.h"

namespace starling {

// Bodies of a graph as passes see them.

// Drops the bodies that no node names.
void drop_unused_bodies(Graph& graph);

// Lets nodes whose bodies have the same text, constants included, name the same body.
void share_equal_bodies(Graph& graph);

// Drops the stacked results of loops that nobody reads: states saved for a gradient that was not taken.
Graph trim_loops(const Graph& graph);

}  // namespace starling
