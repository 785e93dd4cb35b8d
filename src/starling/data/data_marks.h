#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "starling/data/dataset.h"

namespace starling {

// What a data set is told from others of the same size by: the types of its fields and, of a few samples spread over
// it, mean and largest value of each field. Reads those samples; one that cannot be made has no marks.
nlohmann::json marks_of(const Dataset& data);

// How the data set with the marks `now` differs from the one with the marks `saved`: "fields f32[2] instead of f32[3]",
// "sample 7 …". Empty: in nothing that shows. Pictures and other floats may differ by a hundredth, since decoders on
// other machines do. Throws nlohmann::json::exception on marks that are none.
std::string difference_of_marks(const nlohmann::json& saved, const nlohmann::json& now);

}  // namespace starling
