#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "starling/graph/graph.h"

namespace starling::graph {

// Names and colours common to all exports.

// scope: the box of a node: its scope path; "gradients/<scope>" for nodes that came from a forward node; the module of
// a variable that is read there ("conv1" of "conv1.weight"); "update" or "update/<module>" for assigns, for nodes that
// only compute assigned values, and for variables that only those read. Empty: none.
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

// Attributes on one line of at most `most` characters.
std::string shown_attributes(const Node& node, std::size_t most);

// Colour of a device, the same in every picture.
std::string_view device_colour(Device device);

// Full path of every node, "gradients/conv1/conv2d_backward_weight", numbered to be unique.
std::vector<std::string> unique_paths(const Graph& graph);

// Text with HTML and SVG markup characters escaped.
std::string escaped_xml(std::string_view text);

}  // namespace starling::graph
