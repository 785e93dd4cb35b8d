#pragma once

#include <string>

namespace starling::data {

// Warns the user, on standard error, that a sample, a row or a file is left out and why.
void warn(const std::string& message);

// Warning about what all ranks find alike, such as a file of a folder: only the first rank prints it.
void warn_once_for_all_ranks(const std::string& message);

}  // namespace starling::data
