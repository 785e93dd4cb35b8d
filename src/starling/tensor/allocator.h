#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "starling/tensor/device.h"

namespace starling {

struct AllocatorStats {
  std::int64_t live_bytes = 0;          // currently held by tensors and arenas
  std::int64_t peak_bytes = 0;          // maximum of live_bytes since reset_peak
  std::int64_t cached_bytes = 0;        // freed blocks kept for reuse
  std::int64_t allocations = 0;         // total requests
  std::int64_t system_allocations = 0;  // requests passed on to the system
};

// Memory in use that one op, or something else that allocates, holds in one scope.
struct MemoryHolder {
  std::string what;   // MemoryLabel: an op, "a program", …
  std::string scope;  // "net/fc1"; empty at the top
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;
};

// Caching allocator: keeps freed blocks by size class and reuses them. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // 64-byte aligned; throws when the cap or memory is exhausted
  virtual void deallocate(void* data, std::size_t bytes) = 0;
  virtual AllocatorStats stats() const = 0;
  virtual std::vector<MemoryHolder> holders() const {
    return {};
  }  // largest first; of blocks of 64 KiB or more on GPUs
  virtual void reset_peak() = 0;
  virtual void set_cap(std::int64_t bytes) = 0;  // 0: no cap; on GPUs at first that of STARLING_GPU_MEMORY_MB
  virtual void release_cached() = 0;
};

// Allocator of a device; lives as long as the process.
Allocator& allocator(Device device);

}  // namespace starling
