#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// What all pictures of a graph agree on.

// scope: the box a node stands in: where it was applied; "gradients/<scope>" for what came from a forward node; the
// module of a variable that is read there ("conv1" of "conv1.weight"); "update" or "update/<module>" for assigns, for
// nodes that make nothing but what is assigned, and for variables that only those read. Empty: none.
// name: the rest of a variable's name, "input 0", or the op's name.
class GraphNames {
 public:
  explicit GraphNames(const Graph& graph);
  const std::string& scope(NodeId id) const { return scopes_[static_cast<std::size_t>(id)]; }
  const std::string& name(NodeId id) const { return names_[static_cast<std::size_t>(id)]; }

 private:
  std::vector<std::string> scopes_;
  std::vector<std::string> names_;
};

// Attributes on one line of at most so many characters.
std::string shown_attributes(const Node& node, std::size_t most);

// A colour for every device that the graph uses, alike for the same device in every picture.
std::string_view device_colour(Device device);

// Every node's full path, "gradients/conv1/conv2d_backward_weight", numbered where two would be alike.
std::vector<std::string> unique_paths(const Graph& graph);

// The text with what HTML and SVG read as markup written out.
std::string escaped_xml(std::string_view text);

}  // namespace starling
