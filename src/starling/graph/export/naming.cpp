#include "starling/graph/export/naming.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "starling/base/error.h"

namespace starling::graph {
namespace {

const std::string& variable_name(const Graph& graph, const Node& node) {
  return graph.variables[static_cast<std::size_t>(source_index(node))].name;
}

// Replaces characters that other programs do not accept in paths.
std::string cleaned(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-' || c == '/';
    if (!plain) c = '_';
  }
  return text;
}

}  // namespace

namespace {

// Module of a variable and its name there: the longest prefix of its name that is a scope.
std::pair<std::string, std::string> module_and_name(const std::string& variable,
                                                    const std::unordered_set<std::string>& scopes) {
  std::string path = variable;
  std::replace(path.begin(), path.end(), '.', '/');
  for (auto end = path.rfind('/'); end != std::string::npos && end > 0; end = path.rfind('/', end - 1)) {
    if (scopes.contains(path.substr(0, end))) return {path.substr(0, end), variable.substr(end + 1)};
  }
  return {"", variable};
}

std::string in_update(const std::string& module) { return module.empty() ? "update" : "update/" + module; }

std::string scope_of(const Graph& graph, const Node& node) {
  if (!node.scope.empty() || node.origin < 0) return node.scope.str();
  const std::string& from = graph.node(node.origin).scope.str();
  return from.empty() ? "gradients" : "gradients/" + from;
}

std::string plain_name(const Node& node) {
  if (is_op(node, "input")) return fmt::format("input {}", source_index(node));
  if (is_op(node, "constant")) return fmt::format("constant {}", source_index(node));
  return node.op->name;
}

}  // namespace

GraphNames::GraphNames(const Graph& graph) {
  std::unordered_set<std::string> scopes;
  std::vector<bool> read_in_scope(graph.values().size(), false);
  for (const auto& node : graph.nodes()) {
    if (node.scope.empty()) continue;
    scopes.insert(node.scope.str());
    for (ValueId in : node.in) read_in_scope[static_cast<std::size_t>(in)] = true;
  }
  const auto users = graph.users();
  // Module of all variables that a node's results are assigned to; nothing if they are read otherwise.
  const auto updated = [&](const Node& node) -> std::optional<std::string> {
    std::optional<std::string> module;
    for (ValueId out : node.out) {
      for (NodeId user : users[static_cast<std::size_t>(out)]) {
        if (!is_op(graph.node(user), "assign")) return std::nullopt;
        const auto here = module_and_name(variable_name(graph, graph.node(user)), scopes).first;
        module = !module || *module == here ? here : "";
      }
    }
    return module;
  };
  for (const auto& node : graph.nodes()) {
    const bool written = is_op(node, "assign");
    if (!written && !is_op(node, "variable")) {
      scopes_.push_back(scope_of(graph, node));
      names_.push_back(plain_name(node));
      if (!scopes_.back().empty() || is_source(node)) continue;
      if (const auto module = updated(node)) scopes_.back() = in_update(*module);
      continue;
    }
    const auto [module, rest] = module_and_name(variable_name(graph, node), scopes);
    const bool forward = !written && read_in_scope[static_cast<std::size_t>(node.out[0])];
    scopes_.push_back(forward ? module : in_update(module));
    names_.push_back(written ? "assign " + rest : rest);
  }
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
  const GraphNames names(graph);
  std::vector<std::string> paths;
  std::unordered_map<std::string, int> counts;
  std::unordered_set<std::string> taken;
  // Node paths must differ from scope paths.
  for (NodeId id = 0; id < graph.size(); ++id) {
    std::string scope = cleaned(names.scope(id));
    for (; !scope.empty(); scope.resize(scope.rfind('/') == std::string::npos ? 0 : scope.rfind('/')))
      taken.insert(scope);
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    const std::string scope = cleaned(names.scope(id));
    const std::string plain = (scope.empty() ? "" : scope + "/") + cleaned(names.name(id));
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

}  // namespace starling::graph
