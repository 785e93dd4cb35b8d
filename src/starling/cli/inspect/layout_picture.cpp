#include "starling/cli/inspect/layout_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "starling/graph/export/naming.h"

namespace starling::cli {
namespace {

using graph::escaped_xml;

constexpr double kLine = 16, kMargin = 20, kBar = 120, kBarHeight = 11, kTop = 74;
constexpr double kModule = kMargin, kParameters = 260, kResult = 640, kExchanges = 980, kWidth = 1500;
constexpr const char* kColours[] = {"#2563eb", "#d97706", "#059669", "#7c3aed",
                                    "#db2777", "#0891b2", "#65a30d", "#dc2626"};

struct Row {
  std::string scope;
  std::vector<const PlacedParameter*> parameters{};
  const dist::PlannedValue* result = nullptr;  // the last value of the module
  std::vector<const dist::PlannedExchange*> exchanges{};

  std::size_t lines() const { return std::max({parameters.size(), exchanges.size(), std::size_t{1}}); }
};

std::string module_of(const std::string& parameter) {
  const auto dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

// Modules in the order in which the forward pass meets them, then what it does not.
class Rows {
 public:
  Rows(const std::vector<PlacedParameter>& parameters, const dist::PlannedStep& step) {
    for (const auto& value : step.values) {
      const auto*& result = at(dotted(value.scope)).result;
      const bool beside = result && result->op == value.op && result->whole.shape.numel() > value.whole.shape.numel();
      if (!beside) result = &value;  // further results of an op are its statistics
    }
    for (const auto& parameter : parameters) at(module_of(parameter.name)).parameters.push_back(&parameter);
    for (const auto& one : step.exchanges) at(dotted(one.scope)).exchanges.push_back(&one);
  }
  const std::vector<Row>& all() const { return rows_; }

 private:
  Row& at(const std::string& scope) {
    const auto [found, fresh] = places_.emplace(scope, rows_.size());
    if (fresh) rows_.push_back({scope});
    return rows_[found->second];
  }
  std::map<std::string, std::size_t> places_;
  std::vector<Row> rows_;
};

class Picture {
 public:
  Picture(const MeshShape& mesh, int rank) : mesh_(mesh), rank_(rank) {}

  void head(const std::string& title) {
    text(kMargin, 24, title, "b");
    text(kMargin, 42, "Bars: pieces by worker; full colour is what this worker has. Exchanges: + forward, - backward",
         "s");
    text(kModule, kTop - 10, "module", "b");
    text(kParameters, kTop - 10, "parameters", "b");
    text(kResult, kTop - 10, "its result", "b");
    text(kExchanges, kTop - 10, "exchanges of a step", "b");
    y_ = kTop;
  }

  void row(const Row& row) {
    const double height = kLine * static_cast<double>(row.lines()) + 6;
    body_ += fmt::format("<path d=\"M{} {:.0f}H{}\" stroke=\"#e5e7eb\"/>\n", kMargin, y_, kWidth - kMargin);
    text(kModule, y_ + kLine, row.scope.empty() ? "(the step)" : shortened(row.scope, 34), "", row.scope);
    double y = y_;
    for (const auto* parameter : row.parameters) {
      bar(kParameters, y + 5, parameter->cuts);
      text(kParameters + kBar + 10, y + kLine,
           parameter->name.substr(parameter->name.rfind('.') + 1) + " " + to_string(parameter->whole), "",
           parameter->name + ": " + cuts_text(parameter->cuts));
      y += kLine;
    }
    if (row.result) {
      bar(kResult, y_ + 5, row.result->layouts);
      text(kResult + kBar + 10, y_ + kLine, row.result->op + " " + to_string(row.result->whole), "",
           cuts_text(row.result->layouts) + ", here " + to_string(row.result->here));
    }
    y = y_;
    for (const auto* one : row.exchanges) {
      text(kExchanges, y + kLine,
           fmt::format("{} {} {}: {} B sent, {}", one->backward ? "-" : "+", one->axis, one->op, one->sent,
                       shortened(reason_text(*one), 42)),
           "x", one->value + ": " + reason_text(*one));
      y += kLine;
    }
    y_ += height;
  }

  std::string finish() const {
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
               "{1:.0f}\" font-family=\"monospace\" font-size=\"11\">\n<style>text{{fill:#111827}} "
               ".b{{font-weight:bold}} .s{{fill:#6b7280}} .x{{fill:#b45309}}</style>\n<rect width=\"100%\" "
               "height=\"100%\" fill=\"white\"/>\n",
               kWidth, y_ + kMargin) +
           body_ + "</svg>\n";
  }

 private:
  static std::string shortened(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : "…" + text.substr(text.size() - most + 1);
  }

  void text(double x, double y, const std::string& what, const std::string& kind, const std::string& tooltip = "") {
    body_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\"{}>{}{}</text>\n", x, y,
                         kind.empty() ? "" : " class=\"" + kind + "\"", escaped_xml(what),
                         tooltip.empty() ? "" : "<title>" + escaped_xml(tooltip) + "</title>");
  }

  // Whole: one grey bar. Split: as many pieces as ranks of the first axis that splits. Terms: stripes, of all ranks.
  void bar(double x, double y, const dist::AxisCuts& cuts) {
    if (cuts.empty()) {
      body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"#9ca3af\"/>\n", x, y,
                           kBar, kBarHeight);
      return;
    }
    const int parts = mesh_.size(cuts[0].axis), own = mesh_.coordinate(rank_, cuts[0].axis);
    for (int part = 0; part < parts; ++part) piece(x, y, part, parts, part == own, cuts[0].layout.is_partial());
  }

  void piece(double x, double y, int part, int parts, bool own, bool term) {
    const double width = term ? kBar : kBar / parts, height = term ? kBarHeight / parts : kBarHeight;
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" fill-opacity=\"{}\" "
        "stroke=\"white\" stroke-width=\".5\"/>\n",
        term ? x : x + width * part, term ? y + height * part : y, width, height,
        kColours[static_cast<std::size_t>(part) % std::size(kColours)], own ? "1" : ".25");
  }

  const MeshShape& mesh_;
  int rank_;
  double y_ = 0;
  std::string body_;
};

}  // namespace

std::string dotted(std::string scope) {
  std::replace(scope.begin(), scope.end(), '/', '.');
  return scope;
}

std::string cuts_text(const dist::AxisCuts& cuts) {
  std::string text;
  for (const auto& [axis, layout] : cuts) {
    text += (text.empty() ? "" : ", ") + axis + ": ";
    if (layout.is_partial()) {
      text += fmt::format("terms of a {}", name(layout.reduce));
      continue;
    }
    text += fmt::format("dimension {}", static_cast<int>(layout.dim));
    if (layout.gathered) text += ", gathered for use";
    if (layout.blocks > 1) text += fmt::format(" in {} blocks", static_cast<int>(layout.blocks));
  }
  return text.empty() ? "whole" : text;
}

std::string reason_text(const dist::PlannedExchange& one) {
  return fmt::format("{} to {}, for {}{}", one.from, one.to, one.reader,
                     one.reader_scope.empty() ? "" : " in " + dotted(one.reader_scope));
}

std::string layout_picture(const std::string& title, const MeshShape& mesh, int rank,
                           const std::vector<PlacedParameter>& parameters, const dist::PlannedStep& step) {
  Picture picture(mesh, rank);
  picture.head(title);
  const Rows rows(parameters, step);
  for (const Row& row : rows.all()) picture.row(row);
  return picture.finish();
}

}  // namespace starling::cli
