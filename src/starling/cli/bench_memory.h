#pragma once

#include <cstdint>

#include "starling/cli/bench_net.h"

namespace starling::cli {

// What a measured step holds, in bytes.
struct BenchMemory {
  std::int64_t peak = 0;       // most that the allocator handed out at once
  std::int64_t program = 0;    // arena and scratch of the compiled program; 0 for eager
  std::int64_t variables = 0;  // parameters, buffers and the optimizer's state
  std::int64_t rss = 0;        // most physical memory of the process, above what it had before the network was made
};

// Watches memory from its creation on, which is before the network is made. On systems without /proc `rss` is 0.
class MemoryWatch {
 public:
  MemoryWatch();
  BenchMemory since(const BenchNet& net) const;

 private:
  std::int64_t base_ = 0;
};

}  // namespace starling::cli
