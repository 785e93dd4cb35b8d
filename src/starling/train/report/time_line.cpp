#include "starling/train/report/time_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "starling/train/monitor/json_log.h"
#include "starling/train/report/html.h"
#include "starling/train/runs/times.h"

namespace starling::train {
namespace {

using nlohmann::ordered_json;

constexpr double kWidth = 860, kHeight = 46, kMargin = 10;
constexpr std::size_t kMostRows = 40;

double time_of(const ordered_json& event) { return event.value("time", 0.0); }

std::string kind_of(const ordered_json& event) { return event.value("event", ""); }

// A time at which the run trained: events [first, last].
struct Session {
  std::size_t first = 0;
  std::size_t last = 0;
};

std::vector<Session> sessions_of(const std::vector<ordered_json>& events) {
  std::vector<Session> sessions;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (sessions.empty() || kind_of(events[i]) == "begin") sessions.push_back({i, i});
    sessions.back().last = i;
  }
  return sessions;
}

std::string bars(const std::vector<ordered_json>& events) {
  const double begin = time_of(events.front());
  const double length = std::max(1e-3, time_of(events.back()) - begin);
  const auto x = [&](double time) { return kMargin + (time - begin) / length * (kWidth - 2 * kMargin); };
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "role=\"img\" font-size=\"12\"><title>when the run trained</title>\n",
      kWidth, kHeight);
  for (const auto& [first, last] : sessions_of(events)) {
    const double from = time_of(events[first]), to = time_of(events[last]);
    out += fmt::format(
        "<rect class=\"session\" x=\"{:.1f}\" y=\"8\" width=\"{:.1f}\" height=\"14\" rx=\"3\"><title>{} to {}</title>"
        "</rect>\n",
        x(from), std::max(2.0, x(to) - x(from)), second_text(from), second_text(to));
  }
  for (const auto& event : events) {
    if (kind_of(event) != "eval") continue;
    out += fmt::format("<line class=\"event\" x1=\"{0:.1f}\" y1=\"4\" x2=\"{0:.1f}\" y2=\"26\"/>\n", x(time_of(event)));
  }
  out += fmt::format(
      "<text x=\"{:.1f}\" y=\"42\">{}</text>\n<text x=\"{:.1f}\" y=\"42\" text-anchor=\"end\">{}</text>\n</svg>\n",
      kMargin, second_text(begin), kWidth - kMargin, second_text(time_of(events.back())));
  return out;
}

std::string told(const ordered_json& event) {
  const std::string kind = kind_of(event);
  if (kind == "begin") return event.value("resumed", false) ? "resumed" : "began";
  if (kind == "end") {
    const std::string how = event.value("how", "");
    return how == "done" ? "finished" : how == "failed" ? "failed" : "interrupted";
  }
  std::string text = "evaluated:";
  for (const auto& [name, value] : event.items()) {
    if (!is_when_key(name) && value.is_number()) text += fmt::format(" {} {:.5g}", name, value.get<double>());
  }
  return text;
}

}  // namespace

std::string time_line_section(const std::vector<ordered_json>& events) {
  if (events.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const auto& event : events) {
    if (kind_of(event) == "train") continue;
    rows.push_back({second_text(time_of(event)), fmt::format("{}", event.value("step", std::int64_t{0})),
                    fmt::format("{:.4g}", event.value("epoch", 0.0)), told(event)});
  }
  std::string note = "<p class=\"note\">Bars: the run was training; marks: evaluations.</p>\n";
  if (rows.size() > kMostRows) {
    note += fmt::format("<p class=\"note\">The last {} of {} events.</p>\n", kMostRows, rows.size());
    rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(kMostRows));
  }
  rows.insert(rows.begin(), {"when", "step", "epoch", "what"});
  return html_section("Time line", note + bars(events) + html_table(rows));
}

}  // namespace starling::train
