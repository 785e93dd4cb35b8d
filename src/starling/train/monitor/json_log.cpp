#include "starling/train/monitor/json_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <system_error>

namespace starling::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kLongestLine = 1 << 20;

// Complete lines of a file, up to the first that is too long.
class Lines {
 public:
  explicit Lines(const fs::path& file) : in_(file, std::ios::binary), buffer_(kLongestLine + 1) {}

  bool opened() const { return in_.is_open(); }
  bool next() {
    in_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    number_ += in_.eof() ? 0 : 1;
    return in_.good();
  }
  std::string_view line() const { return {buffer_.data(), static_cast<std::size_t>(in_.gcount()) - 1}; }
  std::int64_t number() const { return number_; }
  bool too_long() const { return in_.fail() && !in_.eof(); }

 private:
  std::ifstream in_;
  std::vector<char> buffer_;
  std::int64_t number_ = 0;
};

template <class Json>
std::optional<std::int64_t> step_of(const Json& event) {
  if (!event.is_object()) return std::nullopt;
  const auto step = event.find("step");
  if (step == event.end() || !step->is_number_integer()) return std::nullopt;
  return step->template get<std::int64_t>();
}

// Size of the valid lines up to a step, with or without the evaluation after it. Lines after a broken one are dropped,
// since their step is unknown.
std::uint64_t bytes_up_to(const fs::path& file, std::int64_t last, bool evaluated) {
  std::uint64_t bytes = 0;
  for (Lines lines(file); lines.next();) {
    const auto event = json::parse(lines.line(), nullptr, false);
    const auto step = step_of(event);
    if (!step || *step > last) break;
    const auto kind = event.find("event");
    if (*step == last && !evaluated && kind != event.end() && *kind == "eval") break;
    bytes += lines.line().size() + 1;
  }
  return bytes;
}

Result<void> step_aside(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error) || fs::file_size(file, error) == 0) return {};
  for (int number = 1;; ++number) {
    fs::path aside = file;
    aside.replace_filename(fmt::format("{}-before-{}{}", file.stem().string(), number, file.extension().string()));
    if (fs::exists(aside, error)) continue;
    fs::rename(file, aside, error);
    if (!error) return {};
    return failure("[monitor] expected to move the log of an earlier run to {}, got: {}", aside.string(),
                   error.message());
  }
}

double number_or_nan(const ordered_json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : NAN;
}

class LogReader {
 public:
  void add(const ordered_json& event, std::int64_t step) {
    LogPoint point{
        .step = step, .epoch = number_or_nan(event, "epoch"), .seconds = number_or_nan(event, "seconds"), .value = NAN};
    const auto kind = event.find("event");
    const bool evaluated = kind != event.end() && *kind == "eval";
    for (const auto& [key, value] : event.items()) {
      if (is_when_key(key) || (!value.is_number() && !value.is_null())) continue;
      point.value = value.is_number() ? value.get<double>() : NAN;
      series_of(key, evaluated).points.push_back(point);
    }
  }

  RunLog take() { return std::move(log_); }

 private:
  LogSeries& series_of(const std::string& name, bool evaluated) {
    const auto [found, fresh] = index_.emplace(name, log_.series.size());
    if (fresh) log_.series.push_back({.name = name, .evaluated = evaluated});
    return log_.series[found->second];
  }

  RunLog log_;
  std::map<std::string, std::size_t> index_;
};

}  // namespace

Result<JsonLog> JsonLog::open(const fs::path& file, std::optional<std::int64_t> resumed_at, bool evaluated) {
  if (!resumed_at) {
    if (auto moved = step_aside(file); !moved) return moved.failure();
  }
  auto opened = AppendFile::open(file, resumed_at ? bytes_up_to(file, *resumed_at, evaluated) : 0);
  if (!opened) return opened.failure();
  return JsonLog(std::move(*opened));
}

Result<void> JsonLog::write(const ordered_json& event) {
  return file_.append(event.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

const LogSeries* RunLog::find(const std::string& name) const {
  const auto found = std::find_if(series.begin(), series.end(), [&](const auto& one) { return one.name == name; });
  return found == series.end() ? nullptr : &*found;
}

std::vector<std::string> RunLog::names() const {
  std::vector<std::string> all;
  for (const auto& one : series) all.push_back(one.name);
  return all;
}

bool is_when_key(const std::string& key) {
  return key == "event" || key == "step" || key == "epoch" || key == "seconds" || key == "time";
}

Result<std::vector<ordered_json>> read_run_events(const fs::path& run) {
  std::error_code error;
  if (!fs::exists(run, error))
    return failure("[log] expected the folder of a run, got {}, which is not there", run.string());
  const bool folder = fs::is_directory(run, error);
  const fs::path file = folder ? run / kLogName : run;
  if (!fs::exists(file, error))
    return failure("[log] expected the folder of a run, got {}, which has no {} (monitor.jsonl: true writes it)",
                   run.string(), kLogName);
  Lines lines(file);
  if (!lines.opened()) return failure("[log] expected to read {}, got: {}", file.string(), errno_text());
  std::vector<ordered_json> events;
  while (lines.next()) {
    auto event = ordered_json::parse(lines.line(), nullptr, false);
    if (!step_of(event))
      return failure("{}:{}: [log] expected a JSON object with an integer 'step', got '{}'", file.string(),
                     lines.number(), lines.line().substr(0, 40));
    events.push_back(std::move(event));
  }
  if (lines.too_long())
    return failure("{}:{}: [log] expected a line of at most {} bytes, got a longer one", file.string(), lines.number(),
                   kLongestLine);
  return events;
}

Result<RunLog> read_run_log(const fs::path& run) {
  const auto events = read_run_events(run);
  if (!events) return events.failure();
  LogReader reader;
  for (const auto& event : *events) reader.add(event, *step_of(event));
  return reader.take();
}

}  // namespace starling::train
