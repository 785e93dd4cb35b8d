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

namespace starling {

inline constexpr const char* kLogName = "log.jsonl";  // in the folder of a run

// A log of a run for programs: a JSON object a line, whole lines only. Every event has
//   event    begin, train, eval or end
//   step     updates made so far; never less than in the line before
//   epoch    epochs done so far, as 2.25
//   seconds  spent on training, over all sittings
//   time     seconds since 1970
// and numbers by their names: loss, lr, samples_per_s, test_accuracy, …. A number that is not finite is null.
class JsonLog {
 public:
  // A run that goes on after step `resumed_at` keeps the events up to it and loses the later ones, which it will make
  // again, and a torn last line. Not set: the run begins; a log that is there steps aside as log-before-1.jsonl.
  // `evaluated`: the evaluation after that step was before the resumption, and is not made again.
  static Result<JsonLog> open(const std::filesystem::path& file, std::optional<std::int64_t> resumed_at,
                              bool evaluated = true);

  Result<void> write(const nlohmann::ordered_json& event);

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit JsonLog(AppendFile file) : file_(std::move(file)) {}

  AppendFile file_;
};

// A value of the log and when it was.
struct LogPoint {
  std::int64_t step = 0;
  double epoch = 0;
  double seconds = 0;
  double value = 0;  // NaN where the log has null
};

struct LogSeries {
  std::string name;
  bool evaluated = false;  // it came with an evaluation
  std::vector<LogPoint> points{};
};

struct RunLog {
  std::vector<LogSeries> series{};  // in the order in which they first appear
  const LogSeries* find(const std::string& name) const;
  std::vector<std::string> names() const;
};

// Reads the log of a run: its folder or the file itself. A torn last line (the run may be writing it) is left out.
// Fails with file and line on anything else that is no event.
Result<RunLog> read_run_log(const std::filesystem::path& run);

}  // namespace starling
