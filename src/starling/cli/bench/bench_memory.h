#pragma once

#include <cstdint>

#include "starling/cli/bench/bench_net.h"

namespace starling::cli {

// Memory of a measured step, in bytes.
struct BenchMemory {
  std::int64_t peak = 0;       // peak of the allocator
  std::int64_t program = 0;    // arena and scratch of the compiled program; 0 for eager
  std::int64_t variables = 0;  // parameters, buffers and the optimizer's state
  std::int64_t rss = 0;        // peak resident memory above that before the network was created
};

// Measures memory from its construction on; construct it before the network. `rss` is 0 on systems without /proc.
class MemoryWatch {
 public:
  MemoryWatch();
  BenchMemory since(const BenchNet& net) const;

 private:
  std::int64_t base_ = 0;
};

}  // namespace starling::cli
