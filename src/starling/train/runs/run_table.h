#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/train/runs/run_record.h"

namespace starling::train {

struct RunTableOptions {
  std::vector<std::string> settings{};  // paths to show; empty: those in which the runs differ
  bool all_settings = false;            // also those that only some runs have, with one value, and why runs failed
  std::vector<std::string> filters{};   // "lr>0.01", "state=finished", "model.name!=mlp*": rows for which all hold
  std::string sort{};                   // column; empty: by the run's name
  bool descending = false;
};

// A column: its name is what --sort and --filter take.
struct RunColumn {
  enum class Kind { text, number, duration, moment };  // moment: seconds since 1970
  std::string name;
  Kind kind = Kind::text;
};

// Runs as rows: run, state, settings, epochs, steps, loss, metrics, speed and times.
struct RunTable {
  std::vector<RunColumn> columns{};
  std::vector<std::vector<nlohmann::json>> rows{};  // null: not known
  std::vector<std::string> of_some{};  // settings that only some runs have, with one value: not shown unless asked for
  std::vector<std::pair<std::string, std::string>> failures{};  // of runs that failed: name and reason
};

// Names are those of `columns` and of all settings; a part behind the last dot or the first underscore is enough where
// only one fits (lr, accuracy). Throws on a name that no run has, suggesting the nearest, and on a filter without a
// comparison. Runs are named by their path below `root`.
RunTable make_run_table(const std::vector<RunRecord>& runs, const std::filesystem::path& root,
                        const RunTableOptions& options = {});

std::string to_text(const RunTable& table);
std::string to_csv(const RunTable& table);  // numbers in full, times in seconds
nlohmann::ordered_json to_json(const RunTable& table);

}  // namespace starling::train
