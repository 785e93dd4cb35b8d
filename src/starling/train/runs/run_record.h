#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace starling::train {

// End of a run. One that was killed has left no word and counts as interrupted: it can be resumed.
enum class RunEnd { running, finished, interrupted, failed };
std::string_view to_string(RunEnd end);

// Record of a run as its folder tells it. Numbers that are not known are NaN.
struct RunRecord {
  std::filesystem::path folder{};
  RunEnd state = RunEnd::interrupted;
  // Settings by path, as optimizer.lr: all values of job.yaml; for a run of a C++ trainer, the settings that its
  // checkpoints keep.
  std::map<std::string, nlohmann::json> settings{};
  std::map<std::string, double> metrics{};  // of the last evaluation
  double steps = 0;
  double epochs = 0;
  double loss = 0;  // mean of the last epoch; in a run that has not ended, of the last steps
  double samples_per_s = 0;
  double seconds = 0;     // spent on training, including before resuming
  double started = 0;     // seconds since 1970
  double ended = 0;       // time of the last event
  std::string failure{};  // why a failed run ended, as its log tells; empty: not told
  std::string problem{};  // file that could not be read, and why; empty: none
};

// True if the folder was made by a run: it has a log, a summary or checkpoints.
bool is_run_folder(const std::filesystem::path& folder);

// All run folders at and below a folder, sorted by name. Links are not followed. Throws if the folder is not there.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder);

// Position of the newest checkpoint of a run.
struct RunPosition {
  std::int64_t epoch = 0;   // whole epochs that are done
  std::int64_t sample = 0;  // of the next epoch
  std::int64_t step = 0;
};
// nullopt: the folder has no checkpoint whose position can be read.
std::optional<RunPosition> newest_position(const std::filesystem::path& folder);

// Reads what the folder holds and never throws on damaged files: they are told in `problem`.
RunRecord read_run(const std::filesystem::path& folder);

}  // namespace starling::train
