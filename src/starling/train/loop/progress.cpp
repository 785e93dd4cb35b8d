#include "starling/train/loop/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "starling/base/clock.h"
#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/base/wrap.h"

namespace starling {
namespace {

constexpr double kRedrawEvery = 0.1;  // seconds
constexpr double kRateMemory = 3.0;   // seconds over which the rate is smoothed
constexpr int kLongBar = 20;          // characters
constexpr int kShortBar = 6;

int terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

double done_part(const ProgressState& state) {
  if (state.samples <= 0) return 0;
  return std::clamp(static_cast<double>(state.sample) / static_cast<double>(state.samples), 0.0, 1.0);
}

std::int64_t done_in_all(const ProgressState& state) { return state.epoch * state.samples + state.sample; }

std::string bar(double part, int width) {
  const int filled = static_cast<int>(part * width);
  std::string text = "[" + std::string(static_cast<std::size_t>(filled), '=');
  if (filled < width) text += '>' + std::string(static_cast<std::size_t>(width - filled - 1), ' ');
  return text + "]";
}

// NaN if unknown.
double seconds_left(const ProgressState& state, double rate) {
  if (state.left >= 0 && rate > 0) return static_cast<double>(state.left) / rate;
  if (state.samples <= 0 || rate <= 0) return std::nan("");
  return static_cast<double>(state.epochs * state.samples - done_in_all(state)) / rate;
}

std::string first_columns(const std::string& text, int columns) {
  std::size_t end = 0;
  for (int seen = 0; end < text.size(); ++end) {
    const bool begins = (text[end] & 0xC0) != 0x80;
    if (begins && seen++ == std::max(columns, 0)) break;
  }
  return text.substr(0, end);
}

// As many fields, which stand two spaces apart, as fit; of the first one as much as fits.
std::string whole_fields(std::string line, int columns) {
  while (static_cast<int>(text_width(line)) > columns) {
    const auto last = line.rfind("  ");
    if (last == std::string::npos || last == 0) return first_columns(line, columns);
    line.resize(last);
  }
  return line;
}

struct LineParts {
  int bar = 0;  // width; 0: none
  bool lr = true;
  bool unit = true;            // "samples/s" rather than "/s"
  std::size_t metrics = 1000;  // how many at most
};

std::string progress_line(const ProgressState& state, double rate, const LineParts& parts) {
  std::string line = fmt::format("epoch {}/{} ", std::min(state.epoch + 1, state.epochs), state.epochs);
  auto out = std::back_inserter(line);
  if (state.samples > 0) {
    if (parts.bar > 0) line += bar(done_part(state), parts.bar) + " ";
    fmt::format_to(out, "{:3.0f}%", std::floor(100 * done_part(state)));
  } else {
    fmt::format_to(out, "{} samples", state.sample);  // a stream of unknown length
  }
  fmt::format_to(out, "  {:.0f}{}/s  ETA {}  loss {}", rate, parts.unit ? " samples" : "",
                 format_duration(seconds_left(state, rate)),
                 std::isnan(state.loss) ? "-" : fmt::format("{:.4g}", state.loss));
  for (const auto& metric : state.metrics.first(std::min(parts.metrics, state.metrics.size())))
    fmt::format_to(out, "  {} {:.4g}", metric.name == "loss" ? "eval_loss" : metric.name, metric.value);
  if (parts.lr && state.lr > 0) fmt::format_to(out, "  lr {:.3g}", state.lr);
  return line;
}

// Every line of a text by itself.
std::string wrapped_lines(std::string_view text, std::size_t columns) {
  std::string made;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    made += (at == 0 ? "" : "\n") + wrapped(std::string(text.substr(at, end - at)), columns, 0);
    at = end + 1;
  }
  return made;
}

// Whole lines, broken between words where a terminal would break them anywhere.
std::string for_terminal(std::string_view text, const std::ostream& out, std::size_t columns) {
  const bool terminal = &out == &std::cerr && ::isatty(STDERR_FILENO) == 1;
  return terminal ? wrapped_lines(text, columns) : std::string(text);
}

}  // namespace

ProgressMode parse_progress_mode(std::string_view text) {
  if (text == "auto") return ProgressMode::automatic;
  if (text == "bar") return ProgressMode::bar;
  if (text == "plain") return ProgressMode::plain;
  if (text == "json") return ProgressMode::json;
  if (text == "off") return ProgressMode::off;
  const std::string near = nearest(text, {"auto", "bar", "plain", "json", "off"});
  fail("[progress] expected one of (auto, bar, plain, json, off), got '{}'{}", text,
       near.empty() ? "" : " (did you mean '" + near + "'?)");
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const auto hours = whole / 3600;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string format_progress(const ProgressState& state, double rate, int columns) {
  if (columns <= 0) return progress_line(state, rate, {});
  std::vector<LineParts> choices = {{.bar = kLongBar},
                                    {.bar = kShortBar},
                                    {.bar = kShortBar, .lr = false},
                                    {.bar = kShortBar, .lr = false, .unit = false}};
  for (std::size_t left = state.metrics.size(); left-- > 1;)
    choices.push_back({.bar = kShortBar, .lr = false, .unit = false, .metrics = left});
  for (std::size_t left = std::min<std::size_t>(state.metrics.size(), 1) + 1; left-- > 0;)
    choices.push_back({.lr = false, .unit = false, .metrics = left});
  std::string line;
  for (const auto& parts : choices) {
    line = progress_line(state, rate, parts);
    if (static_cast<int>(text_width(line)) < columns) return line;
  }
  return whole_fields(line, columns - 1);
}

std::string format_progress_json(const ProgressState& state, double rate) {
  const auto number = [](double value) { return std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr; };
  nlohmann::ordered_json json = {{"epoch", std::min(state.epoch + 1, state.epochs)},
                                 {"epochs", state.epochs},
                                 {"step", state.step},
                                 {"sample", state.sample},
                                 {"samples", state.samples > 0 ? nlohmann::ordered_json(state.samples) : nullptr},
                                 {"samples_per_s", number(rate)},
                                 {"eta_s", number(seconds_left(state, rate))},
                                 {"loss", number(state.loss)},
                                 {"lr", number(state.lr)}};
  json["metrics"] = nlohmann::ordered_json::object();
  for (const auto& metric : state.metrics) json["metrics"][std::string(metric.name)] = number(metric.value);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (options_.mode == ProgressMode::automatic) {
    const bool terminal = options_.out == nullptr && ::isatty(STDERR_FILENO) == 1;
    options_.mode = terminal ? ProgressMode::bar : ProgressMode::plain;
  }
  if (options_.out == nullptr) options_.out = &std::cerr;
  if (!options_.now) options_.now = steady_seconds;
}

Progress::~Progress() {
  if (line_open_) *options_.out << '\n' << std::flush;
}

void Progress::update(const ProgressState& state) {
  if (options_.mode == ProgressMode::off) return;
  const double now = options_.now();
  if (!started_) {
    started_ = true;
    first_time_ = drawn_time_ = now;
    first_done_ = drawn_done_ = done_in_all(state);
    return;
  }
  const double every = options_.mode == ProgressMode::bar ? kRedrawEvery : options_.plain_every_s;
  if (now - drawn_time_ < every) return;
  measure(state, now);
  draw(state);
}

void Progress::leave_out(double seconds) {
  first_time_ += seconds;
  drawn_time_ += seconds;
}

void Progress::measure(const ProgressState& state, double now) {
  const double seconds = now - drawn_time_;
  if (seconds <= 0) return;
  const double recent = static_cast<double>(done_in_all(state) - drawn_done_) / seconds;
  const double keep = rate_ > 0 ? std::exp(-seconds / kRateMemory) : 0;
  rate_ = keep * rate_ + (1 - keep) * recent;
  drawn_time_ = now;
  drawn_done_ = done_in_all(state);
}

std::size_t Progress::columns() const {
  return static_cast<std::size_t>(options_.columns > 0 ? options_.columns : terminal_columns());
}

void Progress::draw(const ProgressState& state) {
  if (options_.mode == ProgressMode::bar) {
    *options_.out << '\r' << format_progress(state, rate_, static_cast<int>(columns())) << "\x1b[K" << std::flush;
    line_open_ = true;
  } else if (options_.mode == ProgressMode::json) {
    *options_.out << format_progress_json(state, rate_) << '\n' << std::flush;
  } else {
    *options_.out << for_terminal(format_progress(state, rate_, 0), *options_.out, columns()) << '\n' << std::flush;
  }
}

void Progress::finish(const ProgressState& state) {
  if (options_.mode == ProgressMode::off) return;
  // The last line shows the average speed of the whole run.
  const double seconds = options_.now() - first_time_;
  if (started_ && seconds > 0) rate_ = static_cast<double>(done_in_all(state) - first_done_) / seconds;
  draw(state);
  if (line_open_) *options_.out << '\n' << std::flush;
  line_open_ = false;
  started_ = false;
  rate_ = 0;
}

void Progress::note(std::string_view text) {
  if (line_open_) *options_.out << "\r\x1b[K";
  if (options_.mode == ProgressMode::json) {
    const nlohmann::json json = {{"note", text}};
    *options_.out << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
  } else {
    const bool bar = options_.mode == ProgressMode::bar;
    *options_.out << (bar ? wrapped_lines(text, columns()) : for_terminal(text, *options_.out, columns())) << '\n'
                  << std::flush;
  }
  line_open_ = false;
}

}  // namespace starling
