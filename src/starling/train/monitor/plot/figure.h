#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "starling/train/monitor/json_log.h"

namespace starling {

// One line of a panel. x ascends or stays; points that are not finite are left out.
struct Curve {
  std::size_t run = 0;  // which of the figure's runs; decides colour and mark
  std::vector<double> x{};
  std::vector<double> y{};
  std::vector<double> raw{};  // before smoothing; empty: not smoothed
};

struct Panel {
  std::string metric;
  std::vector<Curve> curves{};
};

struct Figure {
  std::string title{};
  std::string x_label{};
  bool log_y = false;
  std::vector<std::string> runs{};  // labels
  std::vector<Panel> panels{};
};

enum class PlotX { step, epoch, time };

struct FigureOptions {
  std::vector<std::string> metrics{};  // empty: loss and what evaluations found
  PlotX x = PlotX::step;
  double smooth = 0;  // weight of the past, in [0, 1); evaluations, which are few and exact, stay as they are
  bool log_y = false;
  std::string title{};  // empty: made of the runs
};

struct NamedLog {
  std::string label;
  RunLog log;
};

// A panel for each metric with a curve for each run that has it. `notes` gets a sentence for each run that lacks one.
// Throws on a metric that no run has, naming the nearest, and on logs with nothing to draw.
Figure make_figure(const std::vector<NamedLog>& logs, const FigureOptions& options, std::vector<std::string>& notes);

// Short names that tell runs apart: the last part of the path where that does, else the whole.
std::vector<std::string> run_labels(const std::vector<std::filesystem::path>& runs);

// From the first point to the last of all panels: they share the axis.
std::pair<double, double> x_range(const Figure& figure);

// The moving average y_i = (1 - weight) * sum of weight^k x_{i-k}, divided by the sum of its weights, so that it begins
// at the first value. Values that are not finite stay as they are and are not averaged.
std::vector<double> smoothed(const std::vector<double>& values, double weight);

// At most about `most` points that look the same: of each stretch the first, the lowest, the highest and the last.
std::vector<std::size_t> thinned(const std::vector<double>& values, std::size_t most);

}  // namespace starling
