#pragma once

#include <cstddef>

namespace starling {

// Copies bytes past the caches: for results so large that none of them would be there when they are read. `to` is
// 64-byte aligned, `bytes` a multiple of 64. What was written is in order for other threads after stream_end.
void stream_copy(void* to, const void* from, std::size_t bytes);
void stream_end();

}  // namespace starling
