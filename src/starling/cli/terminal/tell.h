#pragma once

#include <string>

namespace starling::cli {

// Writes "starling: text" to standard error: one line, easy to find among others and for programs to read. A terminal
// gets it broken between words at its columns.
void tell(const std::string& text);

}  // namespace starling::cli
