#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "starling/data/datasets/dataset.h"

namespace starling::data {

// Fingerprint that tells data sets of the same size apart: field types, and mean and largest value per field of a few
// samples spread over the set. Reads those samples; a sample that cannot be made has null marks.
nlohmann::json marks_of(const Dataset& data);

// Difference between two fingerprints as text: "fields f32[2] instead of f32[3]", "field 0 of sample 7 …". Empty if
// none shows. Multi-element float and u8 fields may differ by 1 %, since decoders vary between machines. Throws
// nlohmann::json::exception on malformed marks.
std::string difference_of_marks(const nlohmann::json& saved, const nlohmann::json& now);

}  // namespace starling::data
