#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling {

// Candidate with the smallest edit distance to `word`; empty when none is close (more than a third of the word away).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace starling
