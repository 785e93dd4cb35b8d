#include "starling/graph/placement/patterns.h"

#include <algorithm>

namespace starling::graph {
namespace {

std::string path_of_variable(std::string name) {
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

// True for the path itself or one below it.
bool covers(std::string_view pattern, std::string_view path) {
  if (path.empty()) return false;
  return matches_pattern(pattern, path) || matches_pattern(std::string(pattern) + "/*", path);
}

bool of_variable(const Node& node) { return is_op(node, "variable") || is_op(node, "assign"); }

const std::string& variable_name(const Graph& graph, const Node& node) {
  return graph.variables[static_cast<std::size_t>(source_index(node))].name;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool names_node(std::string_view pattern, const Graph& graph, const Node& node) {
  if (pattern.starts_with("op:")) return matches_pattern(pattern.substr(3), node.op->name);
  if (pattern.starts_with("var:"))
    return of_variable(node) && matches_pattern(pattern.substr(4), variable_name(graph, node));
  // An assign follows its variable, wherever in the model it was made.
  if (of_variable(node)) return covers(pattern, path_of_variable(variable_name(graph, node)));
  return covers(pattern, node.scope.str());
}

std::string scope_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!of_variable(node)) return node.scope.str();
  const std::string path = path_of_variable(variable_name(graph, node));
  return path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
}

std::string shown(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (of_variable(node)) return fmt::format("{} '{}'", node.op->name, variable_name(graph, node));
  if (is_source(node)) return fmt::format("{} {}", node.op->name, source_index(node));
  std::string text =
      node.out.empty() ? fmt::format("#{} {}", id, node.op->name) : fmt::format("%{} {}", node.out[0], node.op->name);
  if (!node.scope.empty()) text += " @" + node.scope.str();
  return text;
}

}  // namespace starling::graph
