#pragma once

#include <string_view>

namespace starling {

// True if the pattern matches the whole name: * matches any characters, or none, and ? exactly one. Dots and slashes
// are ordinary characters. At most pattern · name steps.
bool glob_matches(std::string_view pattern, std::string_view name);

}  // namespace starling
