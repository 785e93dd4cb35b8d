#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace starling::train {

// Facts that, besides the job, determine the bits of a run: {"isa": "avx512", "starling": "0.1.0", "compiler": "…"}.
// Kept in a checkpoint's extra data; a run that resumes under other facts may end in other bits, and says so.
nlohmann::json environment_facts();

// Facts that differ, one sentence each; empty if none.
std::vector<std::string> environment_differences(const nlohmann::json& saved, const nlohmann::json& now);

}  // namespace starling::train
