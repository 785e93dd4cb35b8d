#include "starling/train/runs/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <system_error>

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/train/checkpoint/manifest.h"
#include "starling/train/job/job.h"
#include "starling/train/monitor/json_log.h"
#include "starling/train/run/run_lock.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMostSummary = std::size_t{16} << 20;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

double number(const ordered_json& map, const char* key, double fallback) {
  const auto found = map.find(key);
  return found != map.end() && found->is_number() ? found->get<double>() : fallback;
}

std::string text(const ordered_json& map, const char* key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_string() ? found->get<std::string>() : "";
}

void tell(RunRecord& record, const std::string& problem) {
  record.problem += (record.problem.empty() ? "" : "; ") + problem;
}

// Folders that hold no runs: those within a run, and hidden ones. A run may itself be called model.
bool is_part_of_run(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (name.starts_with(".")) return true;
  return (name == "model" || name.starts_with("checkpoints")) && is_run_folder(folder.parent_path());
}

// The newest checkpoint's manifest; nullopt if there is none that is sound.
std::optional<Manifest> newest_manifest(const fs::path& run) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", error)) {
    if (entry.path().filename().string().starts_with("step-")) folders.push_back(entry.path());
  }
  std::sort(folders.rbegin(), folders.rend());
  for (const auto& folder : folders) {
    const auto text = read_file(folder / "manifest.json", kMostSummary);
    if (!text) continue;
    if (auto manifest = attempt([&] { return parse_manifest(*text, folder.string()); })) return *manifest;
  }
  return std::nullopt;
}

// A value as JSON where it is one, else as text.
json value_of(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json(text) : value;
}

void add_settings(RunRecord& record) {
  if (is_there(record.folder / "job.yaml")) {
    const auto read = attempt([&] {
      const ConfigNode top = ConfigNode::load(record.folder / "job.yaml");
      for (const auto& [path, value, where] : job_values(read_job(top), top)) record.settings[path] = value_of(value);
    });
    if (!read) tell(record, read.error());
    return;
  }
  const auto manifest = newest_manifest(record.folder);
  if (!manifest || !manifest->extra.contains("identity")) return;
  for (const auto& [path, value] : manifest->extra.at("identity").items())
    record.settings[path] = value.is_string() ? value_of(value.get<std::string>()) : value;
}

// Returns when the run that wrote the summary began; NaN: not told.
double add_summary(RunRecord& record) {
  const fs::path file = record.folder / "summary.json";
  if (!is_there(file)) return NAN;
  const auto read = read_file(file, kMostSummary);
  const auto summary = read ? ordered_json::parse(*read, nullptr, false) : ordered_json();
  if (!summary.is_object()) {
    tell(record, fmt::format("{}: expected a summary, got something else", file.string()));
    return NAN;
  }
  const auto interrupted = summary.find("interrupted");
  record.state = interrupted != summary.end() && *interrupted == true ? RunEnd::interrupted : RunEnd::finished;
  const double saved = record.steps;
  record.steps = number(summary, "steps", saved);
  if (saved > record.steps) {  // trained on since and not ended again: nothing else in the summary is of now
    record.steps = saved;
    record.state = RunEnd::interrupted;
    return number(summary, "started", NAN);
  }
  record.loss = number(summary, "loss", NAN);
  record.samples_per_s = number(summary, "samples_per_s", NAN);
  const auto metrics = summary.find("metrics");
  if (metrics != summary.end() && metrics->is_object()) {
    for (const auto& [name, value] : metrics->items())
      record.metrics[name] = value.is_number() ? value.get<double>() : NAN;
  }
  return number(summary, "started", NAN);
}

RunEnd end_of(const ordered_json& event) {
  const std::string how = text(event, "how");
  return how == "done" ? RunEnd::finished : how == "failed" ? RunEnd::failed : RunEnd::interrupted;
}

// Metrics are those of the last evaluation, by the names of the log, which has them of runs that have not ended, too.
void add_events(RunRecord& record, const std::vector<ordered_json>& events) {
  for (const auto& event : events) {
    const std::string kind = text(event, "event");
    if (kind == "train" && record.state != RunEnd::finished) {
      record.loss = number(event, "loss", NAN);
      record.samples_per_s = number(event, "samples_per_s", NAN);
    }
    if (kind != "eval") continue;
    record.metrics.clear();
    for (const auto& [name, value] : event.items()) {
      if (!is_when_key(name) && (value.is_number() || value.is_null()))
        record.metrics[name] = value.is_number() ? value.get<double>() : NAN;
    }
  }
}

// The log is newer than the summary while a run is resumed, and is all there is of a run that was killed. One that ends
// before the summary's run began is of an earlier run: the last one wrote none.
void add_log(RunRecord& record, double summary_began) {
  if (!is_there(record.folder / kLogName)) return;
  const auto events = read_run_events(record.folder);
  if (!events) return tell(record, events.error());
  if (events->empty()) return;
  const ordered_json& last = events->back();
  if (number(last, "time", NAN) < summary_began) return;
  const bool ended = text(last, "event") == "end";
  record.state = ended ? end_of(last) : RunEnd::interrupted;
  if (record.state == RunEnd::failed) record.failure = text(last, "why");
  record.started = number(events->front(), "time", NAN);
  record.ended = number(last, "time", NAN);
  record.steps = number(last, "step", NAN);
  record.epochs = number(last, "epoch", NAN);
  record.seconds = number(last, "seconds", NAN);
  add_events(record, *events);
}

}  // namespace

std::string_view to_string(RunEnd end) {
  switch (end) {
    case RunEnd::running: return "running";
    case RunEnd::finished: return "finished";
    case RunEnd::failed: return "failed";
    default: return "interrupted";
  }
}

bool is_run_folder(const fs::path& folder) {
  return is_there(folder / kLogName) || is_there(folder / "summary.json") || is_there(folder / "checkpoints");
}

std::vector<fs::path> find_runs(const fs::path& folder) {
  std::error_code error;
  check(fs::is_directory(folder, error), "[runs] expected a folder with runs, got {}, which is {}", folder.string(),
        is_there(folder) ? "a file" : "not there");
  std::vector<fs::path> runs;
  if (is_run_folder(folder)) runs.push_back(folder);
  for (auto it = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
       it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (error) break;
    if (it->is_symlink(error) || !it->is_directory(error)) continue;
    if (is_part_of_run(it->path())) {
      it.disable_recursion_pending();
    } else if (is_run_folder(it->path())) {
      runs.push_back(it->path());
    }
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

std::optional<RunPosition> newest_position(const fs::path& folder) {
  const auto manifest = newest_manifest(folder);
  const json run = manifest ? manifest->extra.value("run", json()) : json();
  if (!run.is_object() || !run.contains("epoch") || !run.contains("sample")) return std::nullopt;
  return RunPosition{run.at("epoch").get<std::int64_t>(), run.at("sample").get<std::int64_t>(), manifest->step};
}

RunRecord read_run(const fs::path& folder) {
  RunRecord record{.folder = folder};
  record.epochs = record.loss = record.samples_per_s = record.seconds = record.started = record.ended = NAN;
  if (const auto manifest = newest_manifest(folder)) record.steps = static_cast<double>(manifest->step);
  try {
    add_settings(record);
    add_log(record, add_summary(record));
  } catch (const json::exception& error) {  // an odd file of one run must not keep the others from being read
    tell(record, fmt::format("{}: expected the files of a run, got: {}", folder.string(), error.what()));
  }
  if (RunLock::held_by_other(folder)) {
    record.state = RunEnd::running;
    record.failure.clear();
  }
  return record;
}

}  // namespace starling::train
