#pragma once

#include <string>

namespace starling::data {

// Tells the user on standard error about data that is passed over.
void warn(const std::string& message);

// The same for what every rank finds, such as the files of a folder: only the first rank tells it.
void warn_once_for_all_ranks(const std::string& message);

}  // namespace starling::data
