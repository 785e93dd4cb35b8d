#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling {

// The candidate with the fewest edits to `word`, or empty when none is close (more than a third of the word away).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace starling
