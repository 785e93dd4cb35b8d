#pragma once

#include <span>
#include <string>

namespace starling::dist {

// Text for a list of ranks: "rank 2", "ranks 0, 1, 3"; "no rank" if empty.
std::string rank_names(std::span<const int> ranks);

}  // namespace starling::dist
