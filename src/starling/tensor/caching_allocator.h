#pragma once

#include <memory>

#include "starling/tensor/allocator.h"
#include "starling/tensor/device_memory.h"

namespace starling {

// Allocator over a device's memory functions: freed blocks are kept by size class and given out again.
//
// A block may be given out again as soon as its tensor is gone, while kernels that use it are still queued: all work on
// a GPU is queued in one order (programs and eager kernels follow each other on their streams), so that what reuses a
// block runs after what used it. Memory goes back to the device only when it is short; the device waits for its work
// before it takes it. A pool of the driver (cudaMallocAsync) orders by stream, too, but counts in its own blocks, of
// which no limit, peak or holder could be told.
//
// When the device refuses memory, or the cap leaves no room for freed blocks, these are returned and the request is
// tried once more; then OutOfMemory tells the largest holders. `records`: who holds each block is kept, by MemoryLabel
// and scope, but for small ones; blocks above 256 MiB are rounded to 2 MiB, not by size class.
std::unique_ptr<Allocator> make_caching_allocator(Device device, const DeviceMemory& memory, bool records);

}  // namespace starling
