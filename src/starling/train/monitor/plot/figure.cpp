#include "starling/train/monitor/plot/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"

namespace starling::train {
namespace {

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

std::vector<std::string> default_metrics(const std::vector<NamedLog>& logs) {
  std::vector<std::string> names;
  for (const auto& [label, log] : logs) {
    if (log.find("loss") != nullptr) add_once(names, "loss");
  }
  for (const auto& [label, log] : logs) {
    for (const auto& series : log.series) {
      if (series.evaluated) add_once(names, series.name);
    }
  }
  return names;
}

void check_known(const std::vector<NamedLog>& logs, const std::string& metric) {
  std::vector<std::string> known;
  for (const auto& [label, log] : logs) {
    for (const auto& name : log.names()) add_once(known, name);
  }
  if (std::find(known.begin(), known.end(), metric) != known.end()) return;
  const std::string near = nearest(metric, known);
  fail("[plot] expected a metric of the logs, one of ({}), got '{}'{}", fmt::join(known, ", "), metric,
       near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
}

double x_of(const LogPoint& point, PlotX x) {
  if (x == PlotX::epoch) return point.epoch;
  return x == PlotX::time ? point.seconds : static_cast<double>(point.step);
}

Curve make_curve(const LogSeries& series, std::size_t run, const FigureOptions& options) {
  Curve curve{.run = run};
  for (const auto& point : series.points) {
    const double x = x_of(point, options.x);
    if (!std::isfinite(x) || !std::isfinite(point.value) || (options.log_y && point.value <= 0)) continue;
    curve.x.push_back(x);
    curve.y.push_back(point.value);
  }
  if (options.smooth > 0 && !series.evaluated) {
    curve.raw = curve.y;
    curve.y = smoothed(curve.y, options.smooth);
  }
  return curve;
}

// Times in a unit that keeps the numbers small.
std::string scale_time(Figure& figure) {
  double longest = 0;
  for (const auto& panel : figure.panels) {
    for (const auto& curve : panel.curves) longest = std::max(longest, curve.x.empty() ? 0 : curve.x.back());
  }
  const auto [unit, seconds] = longest > 2 * 3600 ? std::pair("h", 3600.0)
                               : longest > 2 * 60 ? std::pair("min", 60.0)
                                                  : std::pair("s", 1.0);
  for (auto& panel : figure.panels) {
    for (auto& curve : panel.curves) {
      for (auto& x : curve.x) x /= seconds;
    }
  }
  return fmt::format("training time ({})", unit);
}

}  // namespace

std::pair<double, double> x_range(const Figure& figure) {
  double low = INFINITY, high = -INFINITY;
  for (const auto& panel : figure.panels) {
    for (const auto& curve : panel.curves) {
      low = std::min(low, curve.x.front());
      high = std::max(high, curve.x.back());
    }
  }
  return {low, high};
}

std::vector<double> smoothed(const std::vector<double>& values, double weight) {
  std::vector<double> out;
  out.reserve(values.size());
  double sum = 0, total = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      out.push_back(value);
      continue;
    }
    sum = weight * sum + (1 - weight) * value;
    total = weight * total + (1 - weight);
    out.push_back(sum / total);
  }
  return out;
}

std::vector<std::size_t> thinned(const std::vector<double>& values, std::size_t most) {
  std::vector<std::size_t> kept;
  const std::size_t n = values.size(), pieces = std::max<std::size_t>(most / 4, 1);
  for (std::size_t piece = 0; piece < pieces && n > most; ++piece) {
    const std::size_t begin = n * piece / pieces, end = n * (piece + 1) / pieces;
    const auto [low, high] = std::minmax_element(values.begin() + static_cast<std::ptrdiff_t>(begin),
                                                 values.begin() + static_cast<std::ptrdiff_t>(end));
    const std::set<std::size_t> points{begin, static_cast<std::size_t>(low - values.begin()),
                                       static_cast<std::size_t>(high - values.begin()), end - 1};
    kept.insert(kept.end(), points.begin(), points.end());
  }
  for (std::size_t i = 0; i < n && n <= most; ++i) kept.push_back(i);
  return kept;
}

Figure make_figure(const std::vector<NamedLog>& logs, const FigureOptions& options, std::vector<std::string>& notes) {
  Figure figure{.title = options.title, .log_y = options.log_y};
  for (const auto& [label, log] : logs) figure.runs.push_back(label);
  if (figure.title.empty()) figure.title = fmt::format("{}", fmt::join(figure.runs, ", "));
  const auto metrics = options.metrics.empty() ? default_metrics(logs) : options.metrics;
  check(!metrics.empty(), "[plot] expected a log with losses or metrics, got none in {}", figure.title);
  bool anything = false;
  for (const auto& metric : metrics) {
    check_known(logs, metric);
    Panel panel{.metric = metric};
    for (std::size_t run = 0; run < logs.size(); ++run) {
      const LogSeries* series = logs[run].log.find(metric);
      Curve curve = series != nullptr ? make_curve(*series, run, options) : Curve{};
      if (curve.x.empty()) {
        notes.push_back(fmt::format("{} has no {}{}", logs[run].label, metric, series ? " that can be drawn" : ""));
        continue;
      }
      anything = true;
      panel.curves.push_back(std::move(curve));
    }
    figure.panels.push_back(std::move(panel));
  }
  check(anything, "[plot] expected at least one finite value of {}, got none", fmt::join(metrics, ", "));
  std::erase_if(figure.panels, [](const Panel& panel) { return panel.curves.empty(); });
  figure.x_label = options.x == PlotX::step ? "step" : options.x == PlotX::epoch ? "epoch" : scale_time(figure);
  return figure;
}

std::vector<std::string> run_labels(const std::vector<std::filesystem::path>& runs) {
  std::vector<std::string> labels;
  for (const auto& run : runs) {
    auto path = run.lexically_normal();
    if (!path.has_filename()) path = path.parent_path();                                   // runs/a/
    if (path.filename() == kLogName && path.has_parent_path()) path = path.parent_path();  // runs/a/log.jsonl
    if (path.filename() == "." || path.filename() == "..") path = std::filesystem::absolute(run).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    labels.push_back(path.filename().string());
  }
  if (std::set<std::string>(labels.begin(), labels.end()).size() == labels.size()) return labels;
  labels.clear();
  for (const auto& run : runs) labels.push_back(run.string());
  return labels;
}

}  // namespace starling::train
