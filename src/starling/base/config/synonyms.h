#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling {

// Candidate that means what another framework calls `word`: learning_rate is lr, num_classes is classes. Empty if there
// is none among the candidates.
std::string synonym(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace starling
