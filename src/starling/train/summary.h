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

// One of several ranks that trained together, and what its strategy counted.
struct RankSummary {
  RankStats stats{};
  nlohmann::json counters = nlohmann::json::object();
};

// What a run came to. A number that is not finite is written as null.
struct Summary {
  std::int64_t steps = 0;
  double samples_per_s = 0;
  double loss = 0;
  std::map<std::string, double> metrics{};
  std::int64_t peak_bytes = 0;
  std::string weights_hash{};
  double wait_share = 0;     // of the training time that went by waiting for data
  std::int64_t skipped = 0;  // updates, because gradients overflowed in f16
  std::string strategy{};    // by which ranks trained together; empty: there was one worker
  std::vector<RankSummary> ranks{};
};

std::string to_json(const Summary& summary);

// Writes summary.json into the folder, as a whole or not at all. Makes the folder when it is not there.
Result<void> write_summary(const std::filesystem::path& folder, const Summary& summary);

}  // namespace starling
