#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace starling::train {

// When the run trained, by the wall clock: a bar for each time it was started, and its events as a table.
std::string time_line_section(const std::vector<nlohmann::ordered_json>& events);

}  // namespace starling::train
