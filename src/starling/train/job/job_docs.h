#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace starling::train {

// Values that the JSON Schema of a setting allows, in words: "whole number, 1 to 10", "list of text", "crop, pad".
std::string allowed_values(const nlohmann::json& schema);

}  // namespace starling::train
