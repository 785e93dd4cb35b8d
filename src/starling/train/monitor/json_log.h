#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "starling/base/result.h"
#include "starling/train/monitor/append_file.h"

namespace starling::train {

inline constexpr const char* kLogName = "log.jsonl";  // in the folder of a run

// Machine-readable log of a run: one JSON object per line, complete lines only. Every event has
//   event    begin, train, eval or end
//   step     updates made so far; never less than in the line before
//   epoch    epochs done so far, as 2.25
//   seconds  spent on training, including before resuming
//   time     seconds since 1970
// an end has how (done, stopped or failed) and, of a run of a job that failed, why,
// and numbers by name: loss, lr, samples_per_s, test_accuracy, …. Non-finite numbers are null.
class JsonLog {
 public:
  // A run resumed after step `resumed_at` keeps the events up to it and drops later ones, which it makes again, and a
  // torn last line. Not set: a new run; an existing log is renamed to log-before-1.jsonl. `evaluated`: the evaluation
  // after that step was made before resuming, and is not made again.
  static Result<JsonLog> open(const std::filesystem::path& file, std::optional<std::int64_t> resumed_at,
                              bool evaluated = true);

  Result<void> write(const nlohmann::ordered_json& event);

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit JsonLog(AppendFile file) : file_(std::move(file)) {}

  AppendFile file_;
};

// A logged value with its time.
struct LogPoint {
  std::int64_t step = 0;
  double epoch = 0;
  double seconds = 0;
  double value = 0;  // NaN if the log has null
};

struct LogSeries {
  std::string name;
  bool evaluated = false;  // from an evaluation
  std::vector<LogPoint> points{};
};

struct RunLog {
  std::vector<LogSeries> series{};  // in order of first appearance
  const LogSeries* find(const std::string& name) const;
  std::vector<std::string> names() const;
};

// Reads the log of a run, given its folder or the file. A torn last line (the run may be writing it) is ignored. Fails
// with file and line on any other invalid line.
Result<RunLog> read_run_log(const std::filesystem::path& run);
// The same log event by event.
Result<std::vector<nlohmann::ordered_json>> read_run_events(const std::filesystem::path& run);
// True for the keys of an event that say what it is and when, not what was measured.
bool is_when_key(const std::string& key);

}  // namespace starling::train
