#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "starling/base/result.h"

namespace starling {

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
};

std::string to_json(const Summary& summary);

// Writes summary.json into the folder, as a whole or not at all. Makes the folder when it is not there.
Result<void> write_summary(const std::filesystem::path& folder, const Summary& summary);

}  // namespace starling
