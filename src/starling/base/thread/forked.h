#pragma once

#include <cstdint>

namespace starling {

// Number of forks between the start of the program and this process, as seen since the first call. Threads that were
// started at a smaller count belong to a parent and do not exist here.
std::uint32_t forks();

}  // namespace starling
