#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/base/result.h"
#include "starling/train/ranks/step_note.h"

namespace starling {

// Statistics of one rank and the counters of its strategy.
struct RankSummary {
  RankStats stats{};
  nlohmann::json counters = nlohmann::json::object();
};

// Summary of a run. Non-finite numbers are written as null.
struct Summary {
  std::int64_t steps = 0;
  double samples_per_s = 0;
  double loss = 0;
  std::map<std::string, double> metrics{};
  std::int64_t peak_bytes = 0;
  std::string weights_hash{};
  double wait_share = 0;     // share of the training time spent waiting for data
  std::int64_t skipped = 0;  // updates skipped for non-finite gradients
  int rollbacks = 0;         // to a checkpoint, for values that were not finite; written only where there were some
  std::string strategy{};    // name of the distribution strategy; empty: one worker
  std::vector<RankSummary> ranks{};
  bool interrupted = false;  // stopped on request before its end; written only where true
  double started = 0;        // seconds since 1970 when this run began or resumed; written only if known
};

std::string to_json(const Summary& summary);

// Writes summary.json into the folder atomically; creates the folder if needed.
Result<void> write_summary(const std::filesystem::path& folder, const Summary& summary);

}  // namespace starling
