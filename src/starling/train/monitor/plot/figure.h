#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "starling/train/monitor/json_log.h"

namespace starling::train {

// One line of a panel. x never decreases; non-finite points are left out.
struct Curve {
  std::size_t run = 0;  // index into the figure's runs; decides colour and marker
  std::vector<double> x{};
  std::vector<double> y{};
  std::vector<double> raw{};  // y before smoothing; empty: not smoothed
};

struct Panel {
  std::string metric;
  std::vector<Curve> curves{};
};

struct Figure {
  std::string title{};
  std::string x_label{};
  bool log_x = false;  // all x above 0
  bool log_y = false;
  std::vector<std::string> runs{};  // labels
  std::vector<Panel> panels{};
};

enum class PlotX { step, epoch, time };

struct FigureOptions {
  std::vector<std::string> metrics{};  // empty: the loss and all metrics of evaluations
  PlotX x = PlotX::step;
  double smooth = 0;  // weight of the past, in [0, 1); evaluations are not smoothed
  bool log_y = false;
  std::string title{};  // empty: made from the runs
};

struct NamedLog {
  std::string label;
  RunLog log;
};

// One panel per metric with a curve for each run that has it. `notes` gets a sentence for each run that lacks one.
// Throws on a metric that no run has, naming the nearest, and if there is nothing to draw.
Figure make_figure(const std::vector<NamedLog>& logs, const FigureOptions& options, std::vector<std::string>& notes);

// Short distinct names of runs: the last path component if that suffices, else the whole path.
std::vector<std::string> run_labels(const std::vector<std::filesystem::path>& runs);

// Range of x over all panels, which share the axis.
std::pair<double, double> x_range(const Figure& figure);

// Exponential moving average with bias correction, so that it begins at the first value: y_i = (1 - weight) * sum of
// weight^k x_{i-k}, divided by the sum of its weights. Non-finite values stay and are not averaged.
std::vector<double> smoothed(const std::vector<double>& values, double weight);

// Indices of about `most` points that look the same: the first, lowest, highest and last of each stretch.
std::vector<std::size_t> thinned(const std::vector<double>& values, std::size_t most);

}  // namespace starling::train
