#include "starling/train/monitor/plot/text_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "starling/train/monitor/plot/axis.h"

namespace starling::train {
namespace {

constexpr int kLeast = 30;                                                  // least width of a plot
constexpr int kGutter = 10;                                                 // columns of the y axis labels
constexpr std::array<int, 7> kColours = {33, 208, 36, 175, 178, 117, 250};  // of 256; readable on dark and light
constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz";

// Bits of a braille character's dots (U+2800) by column and row.
constexpr unsigned kDots[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};

std::string utf8(unsigned code) {
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

// Grid of cells to draw curves in. Dots are counted from the top left.
class Canvas {
 public:
  Canvas(int columns, int rows, const TextPlotOptions& options, bool dots)
      : columns_(columns),
        rows_(rows),
        options_(options),
        dots_(dots),
        cells_(static_cast<std::size_t>(columns * rows)) {}

  int width() const { return dots_ ? columns_ * 2 : columns_; }
  int height() const { return dots_ ? rows_ * 4 : rows_; }

  void dot(int x, int y, std::size_t run) {
    if (x < 0 || y < 0 || x >= width() || y >= height()) return;
    Cell& cell = cells_[index(dots_ ? x / 2 : x, dots_ ? y / 4 : y)];
    if (cell.run != static_cast<int>(run)) cell.bits = 0;  // a cell shows the run drawn last
    cell.run = static_cast<int>(run);
    if (dots_) cell.bits |= kDots[x % 2][y % 4];
  }

  void line(int x0, int y0, int x1, int y1, std::size_t run) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      const double part = static_cast<double>(i) / steps;
      dot(static_cast<int>(std::lround(x0 + part * (x1 - x0))), static_cast<int>(std::lround(y0 + part * (y1 - y0))),
          run);
    }
  }

  std::string row(int number) const {
    std::string text;
    int colour = -1;
    for (int x = 0; x < columns_; ++x) {
      const Cell& cell = cells_[index(x, number)];
      if (options_.colour && cell.run >= 0 && cell.run != colour) {
        text += fmt::format("\x1b[38;5;{}m", kColours[static_cast<std::size_t>(cell.run) % kColours.size()]);
        colour = cell.run;
      }
      text += glyph(cell);
    }
    return colour >= 0 ? text + "\x1b[0m" : text;
  }

 private:
  struct Cell {
    int run = -1;
    unsigned bits = 0;
  };

  std::size_t index(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column);
  }

  std::string glyph(const Cell& cell) const {
    if (cell.run < 0) return " ";
    if (dots_) return utf8(0x2800 + cell.bits);
    return {kLetters[static_cast<std::size_t>(cell.run) % (sizeof(kLetters) - 1)]};
  }

  int columns_, rows_;
  const TextPlotOptions& options_;
  bool dots_;
  std::vector<Cell> cells_;
};

class TextPlot {
 public:
  TextPlot(const Figure& figure, const TextPlotOptions& options)
      : figure_(figure),
        options_(options),
        columns_(std::max(options.columns, kLeast) - kGutter - 1),
        dots_(options.unicode && (options.colour || figure.runs.size() == 1)) {}

  std::string run() {
    for (const auto& panel : figure_.panels) this->panel(panel);
    legend();
    return text_;
  }

 private:
  std::string_view either(std::string_view unicode, std::string_view ascii) const {
    return options_.unicode ? unicode : ascii;
  }

  void panel(const Panel& panel) {
    double y_low = INFINITY, y_high = -INFINITY;
    for (const auto& curve : panel.curves) {
      y_low = std::min(y_low, *std::min_element(curve.y.begin(), curve.y.end()));
      y_high = std::max(y_high, *std::max_element(curve.y.begin(), curve.y.end()));
    }
    const auto [x_low, x_high] = x_range(figure_);
    const Axis x = make_axis(x_low, x_high, std::max(2, columns_ / 12), figure_.log_x, true);
    const Axis y = make_axis(y_low, y_high, std::max(2, options_.rows / 4), figure_.log_y);
    Canvas canvas(columns_, options_.rows, options_, dots_);
    for (const auto& curve : panel.curves) draw(canvas, curve, x, y);
    text_ += fmt::format("{:>{}} {}{}\n", "", kGutter, panel.metric, last_values(panel));
    for (int row = 0; row < options_.rows; ++row) {
      const std::string label = y_label(y, row);
      text_ += fmt::format("{:>{}}{}{}\n", label, kGutter, label.empty() ? either("│", "|") : either("┤", "+"),
                           canvas.row(row));
    }
    x_axis(x);
  }

  void draw(Canvas& canvas, const Curve& curve, const Axis& x, const Axis& y) const {
    int before_x = 0, before_y = 0;
    for (std::size_t i = 0; i < curve.x.size(); ++i) {
      const int at_x = static_cast<int>(std::lround(x.part(curve.x[i]) * (canvas.width() - 1)));
      const int at_y = static_cast<int>(std::lround((1 - y.part(curve.y[i])) * (canvas.height() - 1)));
      canvas.line(i == 0 ? at_x : before_x, i == 0 ? at_y : before_y, at_x, at_y, curve.run);
      before_x = at_x;
      before_y = at_y;
    }
  }

  static std::string last_values(const Panel& panel) {
    return panel.curves.size() == 1 ? fmt::format("  (last {:.4g})", panel.curves[0].y.back()) : "";
  }

  // Label of the tick on this row.
  std::string y_label(const Axis& y, int row) const {
    for (const auto& tick : y.ticks) {
      const int at = static_cast<int>(std::lround((1 - y.part(tick.value)) * (options_.rows - 1)));
      if (at == row && !tick.label.empty()) return tick.label;
    }
    return "";
  }

  void x_axis(const Axis& x) {
    std::string line, numbers(static_cast<std::size_t>(columns_ + kGutter + 1), ' ');
    std::vector<bool> marks(static_cast<std::size_t>(columns_));
    std::size_t free = 0;
    for (const auto& tick : x.ticks) {
      const auto at = static_cast<std::size_t>(std::lround(x.part(tick.value) * (columns_ - 1)));
      marks[std::min(at, marks.size() - 1)] = true;
      const std::size_t width = tick.label.size();
      std::size_t begin = at + kGutter + 1 - std::min(at + kGutter + 1, width / 2);
      begin = std::min(begin, numbers.size() - std::min(numbers.size(), width));
      if (begin < free) continue;
      numbers.replace(begin, width, tick.label);
      free = begin + width + 1;
    }
    for (const bool mark : marks) line += mark ? either("┬", "+") : either("─", "-");
    numbers.erase(numbers.find_last_not_of(' ') + 1);
    text_ += fmt::format("{:>{}}{}{}\n{}\n", "", kGutter, either("└", "+"), line, numbers);
    const int middle = (columns_ - static_cast<int>(figure_.x_label.size())) / 2;
    text_ += fmt::format("{:>{}} {}\n", "", kGutter + std::max(middle, 0), figure_.x_label);
  }

  void legend() {
    if (figure_.runs.size() < 2) return;
    for (std::size_t run = 0; run < figure_.runs.size(); ++run) {
      std::string sample = dots_ ? "⠒⠒⠒" : std::string(3, kLetters[run % (sizeof(kLetters) - 1)]);
      if (options_.colour) sample = fmt::format("\x1b[38;5;{}m{}\x1b[0m", kColours[run % kColours.size()], sample);
      text_ += fmt::format("{:>{}} {} {}{}\n", "", kGutter, sample, figure_.runs[run], values_of(run));
    }
  }

  // Final value of each metric per run.
  std::string values_of(std::size_t run) const {
    std::string text;
    for (const auto& panel : figure_.panels) {
      for (const auto& curve : panel.curves) {
        if (curve.run == run) text += fmt::format("  {} {:.4g}", panel.metric, curve.y.back());
      }
    }
    return text;
  }

  const Figure& figure_;
  TextPlotOptions options_;
  int columns_;
  bool dots_;
  std::string text_;
};

}  // namespace

std::string to_text(const Figure& figure, const TextPlotOptions& options) { return TextPlot(figure, options).run(); }

}  // namespace starling::train
