#pragma once

#include <string>

namespace starling {

// Message of an error without the "[rank N] " that a rank's errors begin with, for an error that quotes it and gets a
// rank of its own.
std::string without_rank(const std::string& message);

}  // namespace starling
