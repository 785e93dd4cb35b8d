#pragma once

#include <string>
#include <string_view>

#include "starling/graph/graph.h"

namespace starling::graph {

// True if the pattern matches the whole text; * matches any characters.
bool matches_pattern(std::string_view pattern, std::string_view text);

// True if a pattern of DeviceConstraint names the node.
bool names_node(std::string_view pattern, const Graph& graph, const Node& node);

// Scope of a node; for variables and assigns that of the module their name belongs to.
std::string scope_of(const Graph& graph, NodeId id);

// Display name of a node in errors and tables: "%12 matmul @net/fc1", "variable 'net.fc1.weight'".
std::string shown(const Graph& graph, NodeId id);

}  // namespace starling::graph
