#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "starling/data/loading/split.h"

namespace starling::data {

// Splits shared by all sources of arrays: samples along the first axis, labels in the last field. `who` begins the
// messages of errors: "[hdf5] x.h5:".

// Checks the range of labels against the number of classes, which they show if it is 0.
void count_classes(std::int64_t lowest, std::int64_t highest, std::string_view who, std::int64_t& classes);

// Names the classes, if there are names, and describes the samples as they come from outside.
void describe_arrays(DataSplits& splits, const std::vector<std::string>& class_names, std::string_view who);

}  // namespace starling::data
