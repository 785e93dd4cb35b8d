#pragma once

#include <string>

#include "starling/graph/graph.h"

namespace starling::graph {

// Graph in Graphviz's DOT language: scopes are nested boxes, types label the edges, devices are colours; inputs,
// variables, constants, ops and assigns have their own shapes, control edges are dashed.
std::string to_dot(const Graph& graph, const std::string& title = "graph");

}  // namespace starling::graph
