#include "starling/graph/printer.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/base/text.h"

namespace starling::graph {
namespace {

template <class List, class F>
std::string joined(const List& list, F&& text) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + text(item);
  return out;
}

std::string value_name(ValueId id) { return "%" + std::to_string(id); }

std::string node_name(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return node.out.empty() ? "#" + std::to_string(id) : value_name(node.out[0]);
}

std::string value_names(std::span<const ValueId> ids) { return joined(ids, value_name); }

std::string results(const Node& node) {
  return node.out.empty() ? "" : value_names({node.out.data(), node.out.size()}) + " = ";
}

std::string operands(const Node& node) {
  return node.in.empty() ? "" : "(" + value_names({node.in.data(), node.in.size()}) + ")";
}

std::string attributes(const Node& node) {
  const std::string text = node.attrs.print();
  return text.empty() ? "" : " {" + text + "}";
}

// Scope, device and order of a node; empty if all are default.
std::string placing(const Graph& graph, const Node& node) {
  std::string out;
  if (!node.after.empty())
    out += " after=(" + joined(node.after, [&](NodeId id) { return node_name(graph, id); }) + ")";
  if (node.lane != Lane::compute) out += " lane=" + name(node.lane);
  if (node.device != Device{} || node.pinned) out += " device=" + to_string(node.device);
  if (node.pinned) out += " pinned";
  return out;
}

std::string head(const Graph& graph, const Node& node) {
  std::string out = results(node) + node.op->name + operands(node) + attributes(node);
  if (!node.scope.empty()) out += " @" + in_quotes(node.scope.str());
  if (node.origin >= 0) out += " origin=" + node_name(graph, node.origin);
  return out + placing(graph, node);
}

std::string type_and_spec(const Value& value) {
  std::string out = to_string(value.type);
  if (!value.layouts.empty()) out += "<" + joined(value.layouts, [](Layout p) { return to_string(p); }) + ">";
  if (!value.name.empty()) out += " " + in_quotes(value.name.str());
  return out;
}

template <class T>
std::string exact(const Tensor& tensor) {
  const Tensor host = to(tensor, kCpu);
  check(host.contiguous(), "[print] expected a contiguous constant, got {} with strides {}", to_string(host.type()),
        to_string(host.strides()));
  const std::span all(host.data<T>(), static_cast<std::size_t>(host.numel()));
  return joined(all, [](T v) { return std::to_string(v); });
}

// Whole numbers are printed exactly: a double does not hold every one of 64 bits, and writes large ones as 1e+16.
std::string literals(const Tensor& tensor) {
  if (tensor.dtype() == DType::i64) return exact<std::int64_t>(tensor);
  if (tensor.dtype() == DType::u64) return exact<std::uint64_t>(tensor);
  return joined(tensor.to_vector(), [](double v) { return v != v ? "nan" : fmt::format("{}", v); });
}

std::string constant_line(std::size_t index, const Tensor& tensor) {
  const std::string out = fmt::format("constant {} {}", index, to_string(tensor.type()));
  // The null device holds shapes only.
  return tensor.device().kind == DeviceKind::null ? out + " null\n" : out + " {" + literals(tensor) + "}\n";
}

// Initial values of variables and named targets, for graphs that run by parts.
std::string ends(const Graph& graph) {
  std::string out;
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    if (graph.variables[i].init >= 0) out += fmt::format("init {} {}\n", i, value_name(graph.variables[i].init));
  }
  for (const auto& [name, nodes] : graph.targets) {
    out += "target " + in_quotes(name) + " (" + joined(nodes, [&](NodeId id) { return node_name(graph, id); }) + ")\n";
  }
  return out;
}

std::string return_line(const Graph& graph) {
  return graph.outputs.empty() ? "return\n" : "return " + value_names(graph.outputs) + "\n";
}

std::string short_line(const Node& node) {
  if (is_source(node)) return results(node) + node.op->name + " " + std::to_string(source_index(node));
  if (is_op(node, "assign")) return fmt::format("assign {}{}", source_index(node), operands(node));
  return results(node) + node.op->name + operands(node) + attributes(node);
}

std::string indented(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin) + 1;
    out += "  " + text.substr(begin, end - begin);
    begin = end;
  }
  return out;
}

template <class F>
std::string bodies(const Graph& graph, F&& text) {
  std::string out;
  for (std::size_t i = 0; i < graph.bodies.size(); ++i)
    out += fmt::format("body {} {{\n{}}}\n", i, indented(text(*graph.bodies[i])));
  return out;
}

std::string contents(const Graph& graph) {
  std::string out;
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    const auto& variable = graph.variables[i];
    out += fmt::format("variable {} {} {}\n", i, in_quotes(variable.name), to_string(variable.type));
  }
  for (std::size_t i = 0; i < graph.constants.size(); ++i) out += constant_line(i, graph.constants[i]);
  out += bodies(graph, contents);
  constexpr std::size_t kWidest = 80;  // largest column of types; longer lines are not aligned
  std::vector<std::string> heads;
  std::size_t width = 0;
  for (const Node& node : graph.nodes()) {
    heads.push_back(head(graph, node));
    if (heads.back().size() <= kWidest) width = std::max(width, heads.back().size());
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const std::string& text = heads[static_cast<std::size_t>(id)];
    const auto types = joined(node.out, [&](ValueId v) { return type_and_spec(graph.value(v)); });
    out += node.out.empty() ? text + "\n" : fmt::format("{:<{}} : {}\n", text, width, types);
  }
  return out + ends(graph) + return_line(graph);
}

}  // namespace

std::string print(const Graph& graph) { return "starling-graph 1\n" + contents(graph); }

std::string print_short(const Graph& graph) {
  std::string out = bodies(graph, print_short);
  for (const Node& node : graph.nodes()) out += short_line(node) + placing(graph, node) + "\n";
  return out + return_line(graph);
}

}  // namespace starling::graph
