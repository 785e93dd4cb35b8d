#pragma once

#include <optional>
#include <string>

#include "starling/graph/graph.h"

namespace starling::graph {

// SVG picture drawn without help: one box per node with its name, attributes, result types and scope; devices are
// colours. Tooltips show the rest.
std::string to_svg(const Graph& graph, const std::string& title = "graph");

// SVG drawn by Graphviz, with scopes as boxes; nothing if the program `dot` is not installed, fails, or takes more than
// 20 seconds.
std::optional<std::string> to_svg_by_graphviz(const Graph& graph, const std::string& title = "graph");

}  // namespace starling::graph
