#pragma once

#include <cstdint>
#include <string_view>

namespace starling {

// Environment variable with the megabytes that tensors may hold on each GPU: "20000" for every one, or "0=20000,1=8000"
// by number; others have no limit.
inline constexpr const char* kGpuMemoryVariable = "STARLING_GPU_MEMORY_MB";

// Bytes that such a text allows a GPU; 0: no limit. Throws "[allocator] expected …" on another text.
std::int64_t gpu_memory_limit(std::string_view text, int gpu);

}  // namespace starling
