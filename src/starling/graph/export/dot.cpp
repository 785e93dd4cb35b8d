#include "starling/graph/export/dot.h"

#include <map>
#include <memory>
#include <set>

#include "starling/base/error.h"
#include "starling/base/text.h"
#include "starling/graph/export/naming.h"

namespace starling::graph {
namespace {

constexpr std::size_t kMostAttributes = 40;

// Tree of scopes with their nodes.
struct Box {
  std::map<std::string, std::unique_ptr<Box>> inner;
  std::vector<NodeId> nodes;
};

class DotWriter {
 public:
  explicit DotWriter(const Graph& graph) : graph_(graph), names_(graph) {
    for (NodeId id = 0; id < graph.size(); ++id) box_of(names_.scope(id)).nodes.push_back(id);
  }

  std::string run(const std::string& title) {
    line(0, "digraph " + in_quotes(title) + " {");
    line(1, "graph [rankdir=TB, newrank=true, ranksep=0.35, nodesep=0.2, fontname=\"Helvetica\", fontsize=12, label=" +
                in_quotes(title) + ", labelloc=t];");
    line(1, "node [fontname=\"Helvetica\", fontsize=10, height=0.3, margin=\"0.08,0.04\"];");
    line(1, "edge [fontname=\"Helvetica\", fontsize=8, fontcolor=\"#4b5563\", color=\"#6b7280\", arrowsize=0.6];");
    box(top_, "", 1);
    for (NodeId id = 0; id < graph_.size(); ++id) edges(id);
    results();
    devices();
    line(0, "}");
    return std::move(text_);
  }

 private:
  Box& box_of(const std::string& scope) {
    Box* at = &top_;
    for (std::size_t begin = 0; begin < scope.size();) {
      const auto end = std::min(scope.find('/', begin), scope.size());
      auto& next = at->inner[scope.substr(begin, end - begin)];
      if (!next) next = std::make_unique<Box>();
      at = next.get();
      begin = end + 1;
    }
    return *at;
  }

  void line(int depth, const std::string& text) {
    text_.append(static_cast<std::size_t>(depth) * 2, ' ');
    text_ += text + "\n";
  }

  void box(const Box& box, const std::string& path, int depth) {
    for (NodeId id : box.nodes) line(depth, node(id));
    for (const auto& [name, inner] : box.inner) {
      const std::string below = path.empty() ? name : path + "/" + name;
      line(depth, "subgraph " + in_quotes("cluster_" + below) + " {");
      line(depth + 1, "label=" + in_quotes(name) + "; style=\"rounded,filled\"; color=\"#9ca3af\"; fillcolor=\"" +
                          (depth % 2 == 1 ? "#f9fafb" : "#f3f4f6") + "\"; labeljust=l;");
      this->box(*inner, below, depth + 1);
      line(depth, "}");
    }
  }

  static std::string_view form(const Node& node) {
    if (is_op(node, "input")) return "invhouse";
    if (is_op(node, "variable")) return "cylinder";
    if (is_op(node, "constant")) return "note";
    return is_op(node, "assign") ? "cds" : "box";
  }

  std::string node(NodeId id) const {
    const Node& node = graph_.node(id);
    std::string label = names_.name(id);
    if (const auto attributes = shown_attributes(node, kMostAttributes); !attributes.empty())
      label += "\n" + attributes;
    std::string style = is_op(node, "assign") || is_source(node) ? "filled" : "rounded,filled";
    if (is_comm(node.lane)) style += ",dashed";
    return fmt::format("n{} [label={}, shape={}, style=\"{}\", fillcolor=\"{}\", tooltip={}];", id, label_text(label),
                       form(node), style, device_colour(node.device),
                       in_quotes(fmt::format("{} on {}", names_.scope(id), to_string(node.device))));
  }

  // Line breaks are Graphviz's own escape, so they are put in after quoting.
  static std::string label_text(const std::string& text) {
    std::string out = in_quotes(text);
    for (auto at = out.find('\n'); at != std::string::npos; at = out.find('\n', at)) out.replace(at, 1, "\\n");
    return out;
  }

  void edges(NodeId id) {
    const Node& node = graph_.node(id);
    for (ValueId in : node.in) {
      const Value& value = graph_.value(in);
      line(1, fmt::format("n{} -> n{} [label={}];", value.node, id, in_quotes(to_string(value.type))));
    }
    for (NodeId first : node.after) line(1, fmt::format("n{} -> n{} [style=dashed, constraint=false];", first, id));
  }

  void results() {
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Value& value = graph_.value(graph_.outputs[i]);
      line(1, fmt::format("out{} [label=\"output {}\", shape=house, style=filled, fillcolor=\"#fde68a\"];", i, i));
      line(1, fmt::format("n{} -> out{} [label={}];", value.node, i, in_quotes(to_string(value.type))));
    }
  }

  // Legend of device colours, if there is more than one.
  void devices() {
    std::map<std::string, std::string_view> used;
    for (const auto& node : graph_.nodes()) used[to_string(node.device)] = device_colour(node.device);
    if (used.size() < 2) return;
    for (const auto& [device, colour] : used)
      line(1, fmt::format("{} [label={}, shape=plaintext, style=filled, fillcolor=\"{}\"];",
                          in_quotes("device " + device), in_quotes(device), colour));
  }

  const Graph& graph_;
  GraphNames names_;
  Box top_;
  std::string text_;
};

}  // namespace

std::string to_dot(const Graph& graph, const std::string& title) { return DotWriter(graph).run(title); }

}  // namespace starling::graph
