#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "starling/train/report/examine.h"
#include "starling/train/runs/run_record.h"

namespace starling::train {

// Content of the page about a run.
struct RunReport {
  std::string name{};
  RunRecord record{};
  std::vector<nlohmann::ordered_json> events{};  // of log.jsonl
  nlohmann::ordered_json summary{};              // null: the run has not ended
  nlohmann::json environment{};                  // of the newest checkpoint; null: none
  std::string job{};                             // YAML; empty: made by a C++ program
  std::vector<std::string> notes{};              // parts that could not be shown, and why
  std::optional<Examined> examined{};
  std::string examined_with{};  // "checkpoint of step 938"
};

// Reads the files of a run; `examined` is left to the caller. Throws if the folder holds no run.
RunReport read_report(const std::filesystem::path& run);

// The page: one HTML file that needs nothing else, in light or dark as the reader's browser is.
std::string to_html(const RunReport& report);

}  // namespace starling::train
