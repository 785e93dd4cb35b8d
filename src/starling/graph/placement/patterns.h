#pragma once

#include <string>
#include <string_view>

#include "starling/graph/graph.h"

namespace starling {

// Whether text is what the pattern says, * standing for any characters.
bool matches_pattern(std::string_view pattern, std::string_view text);

// Whether a pattern of DeviceConstraint names a node.
bool names_node(std::string_view pattern, const Graph& graph, const Node& node);

// The scope of a node; for variables and assigns that of the module which the name says they belong to.
std::string scope_of(const Graph& graph, NodeId id);

// "%12 matmul @net/fc1", "variable 'net.fc1.weight'": how errors and tables name a node.
std::string shown(const Graph& graph, NodeId id);

}  // namespace starling
