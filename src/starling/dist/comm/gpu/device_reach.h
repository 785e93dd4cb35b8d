#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "starling/dist/comm/call.h"
#include "starling/dist/comm/shared/process.h"

namespace starling::dist {

// Buffer in a GPU's memory, as other ranks are told of it. Plain data.
struct ExportedMemory {
  std::array<std::byte, 64> handle{};  // by which other processes open the allocation
  std::uint64_t allocation = 0;        // number in the process that made it, never given twice
  std::uint64_t offset = 0;            // of the buffer in it
  std::uint64_t address = 0;           // for ranks of the same process
};

// Reach of a rank's GPU into the memory of others: CUDA IPC (cuda/cuda_reach.cpp), or a simulation in tests. Work is
// enqueued and runs in its order. One thread at a time.
class DeviceReach {
 public:
  virtual ~DeviceReach() = default;

  // Process whose ranks use each other's addresses as they are.
  virtual ProcessId process() const { return this_process(); }

  // Memory as tensors and programs have it.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data, std::size_t bytes) = 0;

  virtual ExportedMemory export_memory(const void* data) = 0;  // throws Error if other processes cannot open it
  virtual void* open(const ExportedMemory& memory) = 0;        // the allocation, in another process; throws Error
  virtual void close(void* allocation) = 0;

  virtual void await_producers() = 0;  // until all work that programs and eager kernels were given has ended
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // out[i] = s0[i] . s1[i] …, as reduce_block() does; at most kMostSources. out is one of the sources or overlaps none.
  virtual void reduce(DType dtype, ReduceOp reduce, std::span<const void* const> sources, void* out,
                      std::int64_t count) = 0;

  using Mark = std::shared_ptr<void>;
  virtual Mark mark() = 0;  // all work enqueued so far
  virtual bool passed(const Mark& mark) = 0;
  virtual void drain() noexcept = 0;  // waits for all work enqueued

  static constexpr std::size_t kMostSources = 64;
};

// Reach of a GPU of this machine; null in builds without CUDA.
std::shared_ptr<DeviceReach> make_cuda_reach(int device);

}  // namespace starling::dist
