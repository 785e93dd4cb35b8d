#pragma once

#include <string>

namespace starling::data {

// Tells the user on standard error about data that is passed over. Ranks other than the first stay silent: they see the
// same files.
void warn(const std::string& message);

}  // namespace starling::data
