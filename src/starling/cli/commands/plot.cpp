#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/cli/commands.h"
#include "starling/cli/terminal/tell.h"
#include "starling/train/monitor/plot/svg_plot.h"
#include "starling/train/monitor/plot/text_plot.h"

namespace starling {
namespace {

using cli::as_usage;
using cli::kOk;

struct PlotArguments {
  std::vector<std::string> runs;
  std::vector<std::string> metrics;
  std::string x = "step";
  double smooth = 0;
  bool log = false;
  std::string title;
  std::string out;
  std::string style = "auto";
  int columns = 0;
  int rows = 14;
};

// True if the terminal's locale supports UTF-8, as the C library determines it.
bool terminal_speaks_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string lower = value;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
  }
  return false;
}

train::TextPlotOptions text_options(const PlotArguments& options) {
  train::TextPlotOptions made{.rows = options.rows};
  winsize size{};
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) made.columns = size.ws_col;
  if (options.columns > 0) made.columns = options.columns;
  const char* no_colour = std::getenv("NO_COLOR");
  const bool colour = terminal && (no_colour == nullptr || *no_colour == '\0');
  made.unicode = options.style == "auto" ? terminal_speaks_unicode() : options.style != "ascii";
  made.colour = options.style == "auto" ? colour : options.style == "colour";
  return made;
}

std::vector<train::NamedLog> read_logs(const PlotArguments& options) {
  const auto labels = train::run_labels({options.runs.begin(), options.runs.end()});
  std::vector<train::NamedLog> logs;
  for (std::size_t i = 0; i < options.runs.size(); ++i)
    logs.push_back({labels[i], as_usage([&] { return train::read_run_log(options.runs[i]).value(); })});
  return logs;
}

// Only SVG is written: a file that says it is something else would be a lie.
void expect_svg(const std::string& out) {
  if (out.empty() || out.ends_with(".svg")) return;
  throw cli::UsageError(
      fmt::format("[plot] expected -o with a name that ends with .svg, got {} (browsers show SVG, and `rsvg-convert "
                  "curves.svg -o curves.png` makes a PNG of it)",
                  out));
}

int run_plot(const PlotArguments& options) {
  expect_svg(options.out);
  const train::FigureOptions figure_options{.metrics = options.metrics,
                                            .x = options.x == "epoch"  ? train::PlotX::epoch
                                                 : options.x == "time" ? train::PlotX::time
                                                                       : train::PlotX::step,
                                            .smooth = options.smooth,
                                            .log_y = options.log,
                                            .title = options.title};
  const auto logs = read_logs(options);
  std::vector<std::string> notes;
  const train::Figure figure = as_usage([&] { return make_figure(logs, figure_options, notes); });
  for (const auto& note : notes) cli::tell(note);
  if (options.out.empty()) {
    std::cout << to_text(figure, text_options(options));
    return kOk;
  }
  write_file_atomically(options.out, to_svg(figure)).value();
  fmt::print("{}\n", options.out);
  return kOk;
}

}  // namespace

void register_command_plot(cli::Commands& into) {
  auto [app, o] =
      into.add<PlotArguments>("plot", "Draws the curves of one or several runs, in the terminal or as SVG",
                              {{"plot runs/lenet", "loss and what the evaluations found, in the terminal"},
                               {"plot runs/a runs/b --metric loss,test_accuracy --x epoch --smooth 0.9 -o curves.svg",
                                "two runs in a picture"}},
                              run_plot);
  app.add_option("run", o.runs, "Folders of runs, or their log.jsonl")->required();
  app.add_option("--metric", o.metrics, "What to draw, separated by commas; nothing: loss and what evaluations found")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--x", o.x, "step, epoch or time (spent on training)")
      ->check(CLI::IsMember({"step", "epoch", "time"}))
      ->capture_default_str();
  app.add_option("--smooth", o.smooth, "Weight of the past in a moving average; 0: none")
      ->check(CLI::Range(0.0, 0.9999))
      ->capture_default_str();
  app.add_flag("--log", o.log, "Logarithmic y axis; values of 0 and less are left out");
  app.add_option("--title", o.title, "Title of the picture");
  app.add_option("-o,--out", o.out, "File to write, .svg; nothing: draw in the terminal");
  app.add_option("--style", o.style, "In the terminal: auto, colour, plain (no colours) or ascii")
      ->check(CLI::IsMember({"auto", "colour", "plain", "ascii"}))
      ->capture_default_str();
  app.add_option("--columns", o.columns, "Width in the terminal; 0: as wide as it is")->check(CLI::Range(0, 1000));
  app.add_option("--rows", o.rows, "Height of a panel in the terminal")
      ->check(CLI::Range(4, 200))
      ->capture_default_str();
}

}  // namespace starling
