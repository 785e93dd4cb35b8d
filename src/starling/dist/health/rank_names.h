#pragma once

#include <span>
#include <string>

namespace starling {

// "rank 2", "ranks 0, 1, 3"; "no rank" of none.
std::string rank_names(std::span<const int> ranks);

}  // namespace starling
