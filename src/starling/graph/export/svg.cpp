#include "starling/graph/export/svg.h"

#include <algorithm>
#include <map>
#include <set>

#include "starling/base/error.h"
#include "starling/graph/export/layered_drawing.h"
#include "starling/graph/export/naming.h"

namespace starling::graph {
namespace {

constexpr double kFont = 11;
constexpr double kLetter = 0.63 * kFont;  // width of a monospaced letter, with some margin
constexpr double kLine = 14;
constexpr double kPad = 6;
constexpr double kMargin = 24;
constexpr std::size_t kMostLetters = 44;
constexpr std::size_t kBundle = 5;  // assigns or variables drawn as one box

std::string cut(std::string text) {
  if (text.size() > kMostLetters) text = text.substr(0, kMostLetters - 3) + "...";
  return text;
}

struct Drawn {
  std::vector<std::string> lines;
  std::string tooltip, colour, kind;
};

class SvgWriter {
 public:
  explicit SvgWriter(const Graph& graph) : graph_(graph), names_(graph), users_(graph.users()) {
    std::map<std::pair<std::string, NodeId>, std::vector<NodeId>> bundles;
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (const NodeId with = partner(id); with >= 0) bundles[{graph.node(id).op->name, with}].push_back(id);
    }
    std::erase_if(bundles, [](const auto& one) { return one.second.size() < kBundle; });
    box_of_.assign(static_cast<std::size_t>(graph.size()), -1);
    for (NodeId id = 0; id < graph.size(); ++id) {
      const auto bundle = bundles.find({graph.node(id).op->name, partner(id)});
      if (bundle == bundles.end()) {
        box_of_[static_cast<std::size_t>(id)] = static_cast<int>(drawn_.size());
        drawn_.push_back(of_node(id));
      } else if (bundle->second.front() == id) {
        for (NodeId member : bundle->second)
          box_of_[static_cast<std::size_t>(member)] = static_cast<int>(drawn_.size());
        drawn_.push_back(of_bundle(bundle->second));
      }
    }
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (ValueId in : graph.node(id).in) edge(graph.value(in).node, box(id), to_string(graph.value(in).type));
      for (NodeId first : graph.node(id).after) edge(first, box(id), "runs before");
    }
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      const Value& value = graph.value(graph.outputs[i]);
      drawn_.push_back({{fmt::format("output {}", i), to_string(value.type)}, "", "#fde68a", "output"});
      edge(value.node, static_cast<int>(drawn_.size()) - 1, to_string(value.type));
    }
  }

  std::string run(const std::string& title) {
    for (const auto& one : drawn_) boxes_.push_back(size_of_box(one));
    const LayeredDrawing drawing = layered_drawing(boxes_, edges_);
    const auto legend = devices();
    const double top = kMargin + 2 * kLine + (legend.empty() ? 0 : kLine + kPad);
    const double title_width = kLetter * 1.3 * static_cast<double>(title.size());
    const double width =
        std::max({drawing.width, title_width, 240.0 * static_cast<double>(legend.size())}) + 2 * kMargin;
    head(width, drawing.height + top + kMargin, title, legend);
    text_ += fmt::format("<g transform=\"translate({:.1f},{:.1f})\">\n", kMargin, top);
    for (bool far : {true, false}) {
      for (std::size_t e = 0; e < edges_.size(); ++e) {
        if (drawing.far[e] == far) curve(drawing.routes[e], far, edge_texts_[e]);
      }
    }
    for (std::size_t i = 0; i < drawn_.size(); ++i) box(drawn_[i], boxes_[i], drawing.centres[i]);
    return text_ + "</g>\n</svg>\n";
  }

 private:
  int box(NodeId id) const { return box_of_[static_cast<std::size_t>(id)]; }

  void edge(NodeId from, int to, std::string text) {
    if (!known_.emplace(box(from), to).second) return;
    edges_.push_back({box(from), to});
    edge_texts_.push_back(std::move(text));
  }

  // Node that a bundle hangs on; -1: none. Many assigns of one update, or variables with one reader, are drawn as one
  // box: a fused update of a deep network would have hundreds.
  NodeId partner(NodeId id) const {
    const Node& node = graph_.node(id);
    if (is_op(node, "assign") && node.after.empty()) return graph_.value(node.in[0]).node;
    if (!is_op(node, "variable")) return -1;
    const auto& readers = users_[static_cast<std::size_t>(node.out[0])];
    return readers.size() == 1 ? readers[0] : -1;
  }

  Drawn of_bundle(const std::vector<NodeId>& members) const {
    const Node& first = graph_.node(members.front());
    Drawn made{{fmt::format("{} {}s", members.size(), first.op->name)},
               "",
               std::string(device_colour(first.device)),
               kind_of(first)};
    for (NodeId id : members)
      made.tooltip += graph_.variables[static_cast<std::size_t>(source_index(graph_.node(id)))].name + "\n";
    std::string some = made.tooltip.substr(0, made.tooltip.size() - 1);
    std::replace(some.begin(), some.end(), '\n', ' ');
    made.lines.push_back(cut(some));
    return made;
  }

  static std::string kind_of(const Node& node) {
    if (is_source(node) || is_op(node, "assign")) return node.op->name;
    return is_comm(node.lane) ? "comm" : "op";
  }

  Drawn of_node(NodeId id) const {
    const Node& node = graph_.node(id);
    Drawn made{{cut(names_.name(id))}, "", std::string(device_colour(node.device)), kind_of(node)};
    if (const auto attributes = shown_attributes(node, kMostLetters); !attributes.empty())
      made.lines.push_back(attributes);
    std::string types;
    for (ValueId out : node.out) types += (types.empty() ? "" : ", ") + to_string(graph_.value(out).type);
    if (!types.empty()) made.lines.push_back(cut(types));
    const std::string scope = names_.scope(id);
    if (!scope.empty()) made.lines.push_back(cut("@" + scope));
    made.tooltip = fmt::format("{} {} {}\n{}\non {}, lane {}", node.op->name, scope, node.attrs.print(), types,
                               to_string(node.device), name(node.lane));
    return made;
  }

  static DrawnBox size_of_box(const Drawn& drawn) {
    std::size_t letters = 4;
    for (const auto& line : drawn.lines) letters = std::max(letters, line.size());
    return {static_cast<double>(letters) * kLetter + 4 * kPad,
            static_cast<double>(drawn.lines.size()) * kLine + 2 * kPad};
  }

  std::map<std::string, std::string_view> devices() const {
    std::map<std::string, std::string_view> used;
    for (const auto& node : graph_.nodes()) used[to_string(node.device)] = device_colour(node.device);
    return used;
  }

  void head(double width, double height, const std::string& title,
            const std::map<std::string, std::string_view>& legend) {
    text_ += fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" font-family=\"monospace\" font-size=\"{2}\">\n<style>text{{fill:#111827}} .b{{font-weight:bold}} "
        ".s{{fill:#6b7280}} .e{{fill:none;stroke:#6b7280}} .f{{fill:none;stroke:#9ca3af;stroke-opacity:.5;"
        "stroke-dasharray:2 3}}</style>\n<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" "
        "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#6b7280\"/></marker>"
        "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width, height, kFont);
    text_ += fmt::format("<text x=\"{}\" y=\"{}\" class=\"b\" font-size=\"14\">{}</text>\n", kMargin, kMargin + 4,
                         escaped_xml(title));
    double x = kMargin;
    for (const auto& [device, colour] : legend) {
      text_ += fmt::format(
          "<rect x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"12\" height=\"12\" fill=\"{2}\" stroke=\"#6b7280\"/>"
          "<text x=\"{3:.1f}\" y=\"{4:.1f}\">{5}</text>\n",
          x, kMargin + kLine, colour, x + 18, kMargin + kLine + 10, escaped_xml(device));
      x += 240;
    }
  }

  // Draws downward curves that leave and arrive vertically.
  void curve(const std::vector<Point>& points, bool far, const std::string& tooltip) {
    text_ += fmt::format("<path class=\"{}\" marker-end=\"url(#a)\" d=\"M{:.1f} {:.1f}", far ? "f" : "e", points[0].x,
                         points[0].y);
    for (std::size_t i = 1; i < points.size(); ++i) {
      const double half = (points[i].y - points[i - 1].y) / 2;
      text_ += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", points[i - 1].x, points[i - 1].y + half,
                           points[i].x, points[i].y - half, points[i].x, points[i].y);
    }
    text_ += "\"><title>" + escaped_xml(tooltip) + "</title></path>\n";
  }

  // Variables are round, inputs and outputs slanted, constants dashed, assigns thick.
  static std::string outline(const Drawn& drawn, double w, double h) {
    if (drawn.kind == "input" || drawn.kind == "output")
      return fmt::format("<path d=\"M{0:.1f} 0H{1:.1f}L{2:.1f} {3:.1f}H0z\" fill=\"{4}\" stroke=\"#374151\"/>", kPad, w,
                         w - kPad, h, drawn.colour);
    const double round = drawn.kind == "variable" ? h / 2 : drawn.kind == "op" || drawn.kind == "comm" ? 4 : 0;
    const char* dashes = drawn.kind == "constant" || drawn.kind == "comm" ? " stroke-dasharray=\"4 3\"" : "";
    return fmt::format(
        "<rect width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:.1f}\" fill=\"{}\" stroke=\"#374151\" stroke-width=\"{}\"{}/>",
        w, h, round, drawn.colour, drawn.kind == "assign" ? 2 : 1, dashes);
  }

  void box(const Drawn& drawn, const DrawnBox& size, Point centre) {
    text_ += fmt::format("<g class=\"n\" transform=\"translate({:.1f},{:.1f})\">", centre.x - size.width / 2,
                         centre.y - size.height / 2);
    if (!drawn.tooltip.empty()) text_ += "<title>" + escaped_xml(drawn.tooltip) + "</title>";
    text_ += outline(drawn, size.width, size.height);
    for (std::size_t i = 0; i < drawn.lines.size(); ++i) {
      const std::string& line = drawn.lines[i];
      text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\"{}>{}</text>", size.width / 2,
                           kPad + kLine * static_cast<double>(i) + 10,
                           i == 0           ? " class=\"b\""
                           : line[0] == '@' ? " class=\"s\""
                                            : "",
                           escaped_xml(line));
    }
    text_ += "</g>\n";
  }

  const Graph& graph_;
  GraphNames names_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<int> box_of_;  // by node
  std::set<std::pair<int, int>> known_;
  std::vector<Drawn> drawn_;
  std::vector<DrawnBox> boxes_;
  std::vector<DrawnEdge> edges_;
  std::vector<std::string> edge_texts_;
  std::string text_;
};

}  // namespace

std::string to_svg(const Graph& graph, const std::string& title) { return SvgWriter(graph).run(title); }

}  // namespace starling::graph
