#pragma once

#include <filesystem>
#include <string_view>

#include "starling/base/result.h"

namespace starling::train {

// Ends the log of a run with an event that says why it failed: {"event": "end", …, "how": "failed", "why": "[train]
// …"}. It takes the place of an end without a reason, which the monitor writes where an exception ends it. Does nothing
// while another process trains in the folder. Fails where the log cannot be written.
Result<void> log_failure(const std::filesystem::path& run, std::string_view why);

}  // namespace starling::train
