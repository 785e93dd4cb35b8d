#pragma once

#include <optional>
#include <string>

#include "starling/graph/graph.h"

namespace starling {

// A picture that any browser shows, laid out here: one box a node with its name, attributes, result types and scope;
// devices are colours. Hovering over a box tells the rest.
std::string to_svg(const Graph& graph, const std::string& title = "graph");

// The same graph drawn by Graphviz, with scopes as boxes; nothing where the program `dot` is not
// installed, fails, or takes more than 20 seconds.
std::optional<std::string> to_svg_by_graphviz(const Graph& graph, const std::string& title = "graph");

}  // namespace starling
