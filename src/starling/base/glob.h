#pragma once

#include <string_view>

namespace starling {

// Whether a name is what the pattern describes as a whole: * stands for any characters, or none, and ? for one. Dots
// and slashes are characters like others. Takes pattern · name steps at most.
bool glob_matches(std::string_view pattern, std::string_view name);

}  // namespace starling
