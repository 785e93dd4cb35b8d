#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// What all pictures of a graph agree on.

// The box a node stands in: its scope; "gradients/<scope>" for what came from a forward node; the module of a variable
// ("conv1" of "conv1.weight"). Empty: none.
std::string shown_scope(const Graph& graph, NodeId id);

// The last part of a variable's name, "input 0", or the op's name.
std::string shown_name(const Graph& graph, NodeId id);

// Attributes on one line of at most so many characters.
std::string shown_attributes(const Node& node, std::size_t most);

// A colour for every device that the graph uses, alike for the same device in every picture.
std::string_view device_colour(Device device);

// Every node's full path, "gradients/conv1/conv2d_backward_weight", numbered where two would be alike.
std::vector<std::string> unique_paths(const Graph& graph);

// The text with what HTML and SVG read as markup written out.
std::string escaped_xml(std::string_view text);

}  // namespace starling
