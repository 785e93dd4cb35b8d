#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace starling {

// Calls of random ops since the last step, by scope path: with the key of a Generator they are the state that the next
// random numbers of this thread follow from.
std::map<std::string, std::int64_t> random_site_counts();
void set_random_site_counts(const std::map<std::string, std::int64_t>& counts);

}  // namespace starling
