#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <regex>

#include "starling/train/monitor/plot/axis.h"
#include "starling/train/monitor/plot/svg_plot.h"
#include "starling/train/monitor/plot/text_plot.h"
#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

LogSeries series(const std::string& name, const std::vector<double>& values, bool evaluated = false) {
  LogSeries made{.name = name, .evaluated = evaluated};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto n = static_cast<double>(i);
    made.points.push_back({static_cast<std::int64_t>(10 * (i + 1)), n / 4, 60 * n, values[i]});
  }
  return made;
}

std::vector<NamedLog> two_runs() {
  return {
      {"a", {{series("loss", {2, 1, 0.5, 0.25}), series("lr", {0.1, 0.1}), series("test_accuracy", {0.5, 0.9}, true)}}},
      {"b & <c>", {{series("loss", {3, 2, NAN, 1})}}}};
}

Figure figure_of(const std::vector<NamedLog>& logs, const FigureOptions& options = {}) {
  std::vector<std::string> notes;
  return make_figure(logs, options, notes);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> all;
  for (const auto& tick : axis.ticks) {
    if (!tick.label.empty()) all.push_back(tick.label);
  }
  return all;
}

using Labels = std::vector<std::string>;

TEST(PlotAxis, MarksAreRoundNumbersThatCoverTheValues) {
  EXPECT_EQ(labels(make_axis(0.13, 0.92, 5)), (Labels{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(labels(make_axis(1, 9380, 5, false, true)), (Labels{"2k", "4k", "6k", "8k"}));
  EXPECT_EQ(labels(make_axis(-3, 7, 5)), (Labels{"-4", "-2", "0", "2", "4", "6", "8"}));
  EXPECT_EQ(labels(make_axis(0.9012, 0.9098, 4)), (Labels{"0.900", "0.905", "0.910"}));
  EXPECT_EQ(labels(make_axis(0.01, 5, 5, true)), (Labels{"0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"}));
}

TEST(PlotAxis, OneValueAndExtremeOnesStillMakeAnAxis) {
  for (const auto& [low, high] : {std::pair(0.5, 0.5), std::pair(0.0, 0.0), std::pair(1.0, 1 + 1e-15),
                                  std::pair(-1e300, 1e300), std::pair(1e-30, 2e-30), std::pair(-7.0, -7.0)}) {
    const Axis axis = make_axis(low, high, 5);
    EXPECT_LT(axis.low, axis.high);
    EXPECT_GE(axis.ticks.size(), 2U) << low;
    EXPECT_LE(axis.ticks.size(), 12U) << low;
    EXPECT_GE(axis.part(low), 0);
    EXPECT_LE(axis.part(high), 1);
  }
  EXPECT_GE(labels(make_axis(0.3, 0.3, 5, true)).size(), 2U);
}

TEST(PlotFigure, DrawsLossAndEvaluationsUnlessToldOtherwise) {
  std::vector<std::string> notes;
  const Figure figure = make_figure(two_runs(), {}, notes);
  ASSERT_EQ(figure.panels.size(), 2U);
  EXPECT_EQ(figure.panels[0].metric, "loss");
  EXPECT_EQ(figure.panels[1].metric, "test_accuracy");
  EXPECT_EQ(figure.panels[0].curves[1].x, (std::vector<double>{10, 20, 40}));  // the NaN is left out
  EXPECT_EQ(notes, (std::vector<std::string>{"b & <c> has no test_accuracy"}));
  EXPECT_EQ(figure_of(two_runs(), {.metrics = {"lr"}}).panels.at(0).curves.size(), 1U);
}

TEST(PlotFigure, TakesEpochsOrTimeForX) {
  const Figure epochs = figure_of(two_runs(), {.x = PlotX::epoch});
  EXPECT_EQ(epochs.panels[0].curves[0].x, (std::vector<double>{0, 0.25, 0.5, 0.75}));
  const Figure time = figure_of(two_runs(), {.x = PlotX::time});
  EXPECT_EQ(time.x_label, "training time (min)");
  EXPECT_EQ(time.panels[0].curves[0].x, (std::vector<double>{0, 1, 2, 3}));
}

TEST(PlotFigure, NamesTheNearestMetricAndRefusesLogsWithNothingInThem) {
  const std::string error = testing::error_of([] { figure_of(two_runs(), {.metrics = {"test_acuracy"}}); });
  EXPECT_NE(error.find("did you mean 'test_accuracy'?"), std::string::npos) << error;
  EXPECT_NE(error.find("loss, lr, test_accuracy"), std::string::npos) << error;
  EXPECT_NE(testing::error_of([] { figure_of({{"a", {}}}); }), "");
  EXPECT_NE(testing::error_of([] { figure_of({{"a", {{series("loss", {NAN, NAN})}}}}); }), "");
  EXPECT_NE(testing::error_of([] { figure_of({{"a", {{series("loss", {-1})}}}}, {.log_y = true}); }), "");
}

TEST(PlotFigure, LabelsAreTheShortestNamesThatTellRunsApart) {
  EXPECT_EQ(run_labels({"runs/a", "runs/b/"}), (Labels{"a", "b"}));
  EXPECT_EQ(run_labels({"runs/a/log.jsonl", "b"}), (Labels{"a", "b"}));
  EXPECT_EQ(run_labels({"x/lenet", "y/lenet"}), (Labels{"x/lenet", "y/lenet"}));
}

TEST(PlotFigure, SmoothingIsAWeightedMeanOfThePast) {
  const std::vector<double> values = {4, 2, 6};
  const auto y = smoothed(values, 0.5);
  EXPECT_DOUBLE_EQ(y[0], 4);
  EXPECT_DOUBLE_EQ(y[1], (0.5 * 4 + 2) / 1.5);
  EXPECT_DOUBLE_EQ(y[2], (0.25 * 4 + 0.5 * 2 + 6) / 1.75);
  const Figure figure = figure_of(two_runs(), {.smooth = 0.5});
  EXPECT_EQ(figure.panels[0].curves[0].raw, (std::vector<double>{2, 1, 0.5, 0.25}));
}

TEST(PlotFigure, ThinningKeepsExtremesAndBothEnds) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<double> values(100000);
  for (auto& value : values) value = normal(random);
  const auto kept = thinned(values, 1000);
  EXPECT_LE(kept.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  EXPECT_EQ(kept.front(), 0U);
  EXPECT_EQ(kept.back(), values.size() - 1);
  const auto highest = static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), highest));
  EXPECT_EQ(thinned({1, 2, 3}, 1000), (std::vector<std::size_t>{0, 1, 2}));
}

// Tags open and close in order, and no text holds a bare < or &.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([a-z]+)([^<>]*?)(/?)>)");
  std::string rest = std::regex_replace(svg, tag, "");
  EXPECT_EQ(rest.find('<'), std::string::npos);
  EXPECT_FALSE(std::regex_search(rest, std::regex("&(?!amp;|lt;|quot;)")));
  for (auto it = std::sregex_iterator(svg.begin(), svg.end(), tag); it != std::sregex_iterator(); ++it) {
    if ((*it)[1].length() > 0) {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), (*it)[2].str());
      open.pop_back();
    } else if ((*it)[4].length() == 0) {
      open.push_back((*it)[2].str());
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(PlotSvg, HasAPanelForEachMetricACurveForEachRunAndALegend) {
  const std::string svg = to_svg(figure_of(two_runs()));
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "class=\"panel\""), 2U);
  EXPECT_EQ(count(svg, "class=\"curve\""), 3U);
  EXPECT_EQ(count(svg, "class=\"legend\""), 2U);
  EXPECT_NE(svg.find("b &amp; &lt;c>"), std::string::npos);
  EXPECT_NE(svg.find("a: loss 0.25 at step 40"), std::string::npos);
  // The runs differ in more than colour.
  const std::regex dashed("class=\"curve\"[^>]*stroke-dasharray");
  EXPECT_EQ(std::distance(std::sregex_iterator(svg.begin(), svg.end(), dashed), std::sregex_iterator()), 1);
}

TEST(PlotSvg, PutsPointsWhereTheNumbersSay) {
  const std::string svg = to_svg(figure_of({{"a", {{series("loss", {0, 1, 0.5})}}}}));
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "class=\"legend\""), 0U);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(svg, found, std::regex("class=\"curve\"[^>]*points=\"([^\"]*)\"")));
  // From the left edge to the right one; 0 at the bottom, 1 at the top, 0.5 half way.
  EXPECT_EQ(found[1].str(), "78.0,290.0 457.0,74.0 836.0,182.0 ");
}

TEST(PlotSvg, DrawsRawValuesBeneathSmoothedOnesAndLogarithmicAxes) {
  const std::string svg = to_svg(figure_of(two_runs(), {.metrics = {"loss"}, .smooth = 0.9, .log_y = true}));
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "class=\"raw\""), 2U);
  EXPECT_EQ(count(svg, "class=\"curve\""), 2U);
}

TEST(PlotSvg, StaysSmallForLongRuns) {
  std::vector<double> values(200000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
  EXPECT_LT(to_svg(figure_of({{"a", {{series("loss", values)}}}})).size(), 60000U);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(PlotText, FitsTheColumnsAndFallsWithTheCurve) {
  const std::string text =
      to_text(figure_of({{"a", {{series("loss", {4, 3, 2, 1, 0})}}}}), {.columns = 50, .rows = 9, .unicode = false});
  const auto lines = lines_of(text);
  ASSERT_GE(lines.size(), 12U);
  for (const auto& line : lines) EXPECT_LE(line.size(), 50U) << line;
  EXPECT_NE(lines[0].find("loss"), std::string::npos);
  EXPECT_EQ(lines[1].find('a'), 11U) << text;   // 4 at the left end of the first row
  EXPECT_EQ(lines[9].rfind('a'), 49U) << text;  // 0 at the right end of the last
  EXPECT_EQ(lines[1].substr(0, 11), "         4+") << text;
  EXPECT_EQ(lines[9].substr(0, 11), "         0+") << text;
  EXPECT_NE(lines[10].find("+---"), std::string::npos) << text;
}

TEST(PlotText, DrawsDotsOfBrailleInColoursOrLettersWithout) {
  const Figure figure = figure_of(two_runs());
  const std::string colours = to_text(figure, {.colour = true});
  EXPECT_NE(colours.find("\x1b[38;5;33m"), std::string::npos);
  EXPECT_NE(colours.find("\x1b[38;5;208m"), std::string::npos);
  EXPECT_NE(colours.find("⠒⠒⠒"), std::string::npos);
  const std::string plain = to_text(figure, {});
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(plain.find("aaa a  loss 0.25  test_accuracy 0.9"), std::string::npos) << plain;
  EXPECT_NE(plain.find("bbb b & <c>  loss 1"), std::string::npos) << plain;
  const std::string ascii = to_text(figure, {.unicode = false});
  EXPECT_TRUE(std::all_of(ascii.begin(), ascii.end(), [](unsigned char c) { return c < 128; }));
}

TEST(PlotText, AnOddWidthOrASinglePointIsNoTrouble) {
  for (const int columns : {1, 30, 31, 200}) {
    EXPECT_NE(to_text(figure_of({{"a", {{series("loss", {1})}}}}), {.columns = columns, .rows = 4}), "");
  }
}

}  // namespace
}  // namespace starling::train
