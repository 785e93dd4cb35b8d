#include "starling/graph/export/naming.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "starling/base/error.h"

namespace starling {
namespace {

const std::string& variable_name(const Graph& graph, const Node& node) {
  return graph.variables[static_cast<std::size_t>(source_index(node))].name;
}

// Characters that paths of other programs do not take.
std::string cleaned(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-' || c == '/';
    if (!plain) c = '_';
  }
  return text;
}

}  // namespace

std::string shown_scope(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (is_op(node, "variable") || is_op(node, "assign")) {
    std::string path = variable_name(graph, node);
    const auto end = path.rfind('.');
    if (end == std::string::npos) return "";
    path.resize(end);
    std::replace(path.begin(), path.end(), '.', '/');
    return path;
  }
  if (!node.scope.empty()) return node.scope.str();
  if (node.origin < 0) return "";
  const std::string& from = graph.node(node.origin).scope.str();
  return from.empty() ? "gradients" : "gradients/" + from;
}

std::string shown_name(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const auto last_part = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  if (is_op(node, "variable")) return last_part(variable_name(graph, node));
  if (is_op(node, "assign")) return "assign " + last_part(variable_name(graph, node));
  if (is_op(node, "input")) return fmt::format("input {}", source_index(node));
  if (is_op(node, "constant")) return fmt::format("constant {}", source_index(node));
  return node.op->name;
}

std::string shown_attributes(const Node& node, std::size_t most) {
  if (is_source(node) || is_op(node, "assign")) return "";
  std::string text = node.attrs.print();
  if (text.size() > most) text = text.substr(0, most - 3) + "...";
  return text;
}

std::string_view device_colour(Device device) {
  constexpr std::string_view cpus[] = {"#dbeafe", "#e0e7ff", "#cffafe", "#ede9fe", "#d1fae5", "#fae8ff"};
  constexpr std::string_view gpus[] = {"#dcfce7", "#fef9c3", "#ffedd5", "#ecfccb", "#fee2e2", "#fef3c7"};
  const auto index = static_cast<std::size_t>(std::max(0, static_cast<int>(device.index))) % std::size(cpus);
  if (device.kind == DeviceKind::cuda) return gpus[index];
  return device.kind == DeviceKind::cpu ? cpus[index] : "#f3f4f6";
}

std::vector<std::string> unique_paths(const Graph& graph) {
  std::vector<std::string> paths;
  std::unordered_map<std::string, int> counts;
  std::unordered_set<std::string> taken;
  // A path that is also a box would be two things at once.
  for (NodeId id = 0; id < graph.size(); ++id) {
    std::string scope = cleaned(shown_scope(graph, id));
    for (; !scope.empty(); scope.resize(scope.rfind('/') == std::string::npos ? 0 : scope.rfind('/')))
      taken.insert(scope);
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    const std::string scope = cleaned(shown_scope(graph, id));
    const std::string plain = (scope.empty() ? "" : scope + "/") + cleaned(shown_name(graph, id));
    std::string path = plain;
    for (int& count = counts[plain]; !taken.insert(path).second;) path = fmt::format("{}_{}", plain, ++count);
    paths.push_back(std::move(path));
  }
  return paths;
}

std::string escaped_xml(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

}  // namespace starling
