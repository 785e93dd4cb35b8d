#include "starling/train/monitor/plot/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "starling/train/monitor/plot/axis.h"

namespace starling::train {
namespace {

constexpr double kWidth = 860, kPanel = 300, kLeft = 78, kRight = 24, kTop = 34, kBottom = 50, kTitle = 40;
constexpr double kLegendRow = 20, kLetter = 7.2, kSample = 44;
constexpr std::size_t kMostPoints = 1600;
constexpr int kMarksOnCurve = 8;

// Colours of Okabe and Ito without yellow, which is too pale for lines on white.
constexpr std::array<const char*, 7> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#E69F00", "#56B4E9", "#000000"};
constexpr std::array<const char*, 5> kDashes = {"", "7 3", "2 3", "9 3 2 3", "14 4"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return out;
}

std::string colour(std::size_t run) { return fmt::format("stroke=\"{}\"", kColours[run % kColours.size()]); }

std::string stroke(std::size_t run) {
  const std::string dash = kDashes[run % kDashes.size()];
  return fmt::format("{}{}", colour(run), dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

// A marker at a point, with a tooltip.
std::string mark(std::size_t run, double x, double y, const std::string& tooltip) {
  const std::string title = tooltip.empty() ? "" : fmt::format("<title>{}</title>", escaped(tooltip));
  const std::string style =
      fmt::format("class=\"mark\" fill=\"#fff\" stroke=\"{}\" stroke-width=\"1.5\"", kColours[run % kColours.size()]);
  switch (run % 4) {
    case 0: return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" {}>{}</circle>\n", x, y, style, title);
    case 1:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"6.4\" height=\"6.4\" {}>{}</rect>\n", x - 3.2,
                         y - 3.2, style, title);
    case 2: return fmt::format("<path d=\"M{:.1f} {:.1f} l4 7 h-8 z\" {}>{}</path>\n", x, y - 4.5, style, title);
    default:
      return fmt::format("<path d=\"M{:.1f} {:.1f} l4.4 4.4 l-4.4 4.4 l-4.4 -4.4 z\" {}>{}</path>\n", x, y - 4.4, style,
                         title);
  }
}

class SvgPlot {
 public:
  explicit SvgPlot(const Figure& figure) : figure_(figure) {}

  std::string run() {
    place_legend();
    const double top = kTitle + legend_height_;
    const double height = top + kPanel * static_cast<double>(figure_.panels.size()) + 8;
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "role=\"img\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\" font-size=\"12\">\n<title>{2}</title>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        "<text x=\"{3:.1f}\" y=\"26\" font-size=\"16\" font-weight=\"bold\" fill=\"#222\">{4}</text>\n",
        kWidth, height, escaped(figure_.title), kLeft, escaped(cut(figure_.title, 90)));
    legend();
    for (std::size_t i = 0; i < figure_.panels.size(); ++i)
      panel(figure_.panels[i], top + kPanel * static_cast<double>(i));
    return text_ + "</svg>\n";
  }

 private:
  static std::string cut(const std::string& text, std::size_t most) {
    if (text.size() <= most) return text;
    std::size_t end = most - 1;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole characters only
    return text.substr(0, end) + "…";
  }

  // Entries from left to right, in as many rows as they need.
  void place_legend() {
    if (figure_.runs.size() < 2) return;
    double x = kLeft;
    legend_height_ = kLegendRow;
    for (const auto& label : figure_.runs) {
      const double width = kSample + 8 + kLetter * static_cast<double>(std::min<std::size_t>(label.size(), 60)) + 20;
      if (x > kLeft && x + width > kWidth - kRight) {
        x = kLeft;
        legend_height_ += kLegendRow;
      }
      legend_.emplace_back(x, kTitle + legend_height_ - kLegendRow + 8);
      x += width;
    }
    legend_height_ += 6;
  }

  void legend() {
    for (std::size_t run = 0; run < legend_.size(); ++run) {
      const auto [x, y] = legend_[run];
      text_ += fmt::format(
          "<g class=\"legend\"><line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {} "
          "stroke-width=\"2\"/>\n{}<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#222\">{}</text></g>\n",
          x, y, x + kSample, y, stroke(run), mark(run, x + kSample / 2, y, ""), x + kSample + 8, y + 4,
          escaped(cut(figure_.runs[run], 60)));
    }
  }

  void panel(const Panel& panel, double top) {
    double y_low = INFINITY, y_high = -INFINITY;
    for (const auto& curve : panel.curves) {
      for (const auto* values : {&curve.y, &curve.raw}) {
        for (const double y : *values) {
          y_low = std::min(y_low, y);
          y_high = std::max(y_high, y);
        }
      }
    }
    const auto [x_low, x_high] = x_range(figure_);
    x_ = make_axis(x_low, x_high, 8, figure_.log_x, true);
    y_ = make_axis(y_low, y_high, 5, figure_.log_y);
    top_ = top + kTop;
    text_ +=
        fmt::format("<g class=\"panel\">\n<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"14\" fill=\"#222\">{}</text>\n",
                    kLeft, top_ - 12, escaped(panel.metric));
    axes();
    for (const auto& curve : panel.curves) {
      if (!curve.raw.empty()) line(curve.x, curve.raw, colour(curve.run), "raw", "stroke-width=\"1\" opacity=\"0.3\"");
    }
    for (const auto& curve : panel.curves) {
      line(curve.x, curve.y, stroke(curve.run), "curve", "stroke-width=\"2\"");
      marks(curve, panel.metric);
    }
    text_ += "</g>\n";
  }

  double x(double value) const { return kLeft + x_.part(value) * (kWidth - kLeft - kRight); }
  double y(double value) const { return top_ + (1 - y_.part(value)) * (kPanel - kTop - kBottom); }

  void axes() {
    const double right = kWidth - kRight, bottom = top_ + kPanel - kTop - kBottom;
    for (const auto& tick : y_.ticks) {
      const double at = y(tick.value);
      text_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#{}\"/>\n", kLeft,
                           at, right, at, tick.label.empty() ? "f2f2f2" : "ddd");
      if (!tick.label.empty())
        text_ +=
            fmt::format("<text class=\"y\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#444\">{}</text>\n",
                        kLeft - 8, at + 4, tick.label);
    }
    for (const auto& tick : x_.ticks) {
      const double at = x(tick.value);
      text_ += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#444\"/>\n"
          "<text class=\"x\" x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\" fill=\"#444\">{4}</text>\n",
          at, bottom, bottom + 5, bottom + 19, tick.label);
    }
    text_ += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f} V{2:.1f} H{3:.1f}\" fill=\"none\" stroke=\"#444\"/>\n"
        "<text x=\"{4:.1f}\" y=\"{5:.1f}\" text-anchor=\"middle\" fill=\"#222\">{6}</text>\n",
        kLeft, top_, bottom, right, (kLeft + right) / 2, bottom + 38, escaped(figure_.x_label));
  }

  void line(const std::vector<double>& xs, const std::vector<double>& ys, const std::string& stroke,
            const std::string& kind, const std::string& style) {
    std::string points;
    for (const std::size_t i : thinned(ys, kMostPoints)) points += fmt::format("{:.1f},{:.1f} ", x(xs[i]), y(ys[i]));
    text_ += fmt::format("<polyline class=\"{}\" fill=\"none\" {} {} stroke-linejoin=\"round\" points=\"{}\"/>\n", kind,
                         stroke, style, points);
  }

  // Marks some points spread over the curve including the last; every point if there are few.
  void marks(const Curve& curve, const std::string& metric) {
    const std::size_t n = curve.x.size();
    const std::size_t every = std::max<std::size_t>(1, n / kMarksOnCurve);
    for (std::size_t back = 0; back < n; back += n <= 3 * kMarksOnCurve ? 1 : every) {
      const std::size_t i = n - 1 - back;
      text_ += mark(curve.run, x(curve.x[i]), y(curve.y[i]),
                    fmt::format("{}: {} {:.5g} at {} {:.6g}", figure_.runs[curve.run], metric, curve.y[i],
                                figure_.x_label, curve.x[i]));
    }
  }

  const Figure& figure_;
  std::string text_;
  std::vector<std::pair<double, double>> legend_;
  double legend_height_ = 0;
  double top_ = 0;
  Axis x_, y_;
};

}  // namespace

std::string to_svg(const Figure& figure) { return SvgPlot(figure).run(); }

}  // namespace starling::train
