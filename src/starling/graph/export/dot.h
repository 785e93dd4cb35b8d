#pragma once

#include <string>

#include "starling/graph/graph.h"

namespace starling {

// A picture in Graphviz's language: scopes are nested boxes, types stand on the edges, devices are colours; inputs,
// variables, constants, ops and assigns have forms of their own, control edges are dashed.
std::string to_dot(const Graph& graph, const std::string& title = "graph");

}  // namespace starling
