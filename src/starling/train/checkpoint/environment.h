#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace starling {

// What, besides the job, decides the bits of a run: {"isa": "avx512", "starling": "0.1.0", "compiler": "…"}. Kept in
// the extra data of a checkpoint; a run that resumes under other facts may end in other bits, and says so.
nlohmann::json environment_facts();

// The facts that differ, one sentence each; empty when a run goes on under the same ones.
std::vector<std::string> environment_differences(const nlohmann::json& saved, const nlohmann::json& now);

}  // namespace starling
