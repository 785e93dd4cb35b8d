#include "starling/cli/bench/bench_memory.h"

#include <fstream>
#include <string>

#include "starling/tensor/allocator.h"

namespace starling::cli {
namespace {

// Value of a line such as "VmHWM:   12345 kB" of /proc/self/status; 0 if there is none.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

// Resets the kernel's high-water mark to the current usage.
void reset_high_water() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace

MemoryWatch::MemoryWatch() : base_(status_bytes("VmRSS")) { reset_high_water(); }

BenchMemory MemoryWatch::since(const BenchNet& net) const {
  return {.peak = allocator(net.device()).stats().peak_bytes,
          .program = net.program_bytes(),
          .variables = net.variable_bytes(),
          .rss = status_bytes("VmHWM") - base_};
}

}  // namespace starling::cli
