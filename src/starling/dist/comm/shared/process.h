#pragma once

#include <cstdint>

namespace starling {

// A process of this host. Numbers are used again; together with the time of its start they are not.
struct ProcessId {
  std::int32_t pid = 0;
  std::uint64_t start = 0;  // clock ticks since the host's boot; 0: unknown

  bool operator==(const ProcessId&) const = default;
};

ProcessId this_process();

// Says when a process has ended, also while its parent has not yet asked (a zombie).
class ProcessWatch {
 public:
  explicit ProcessWatch(const ProcessId& process);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  bool ended() const;

 private:
  ProcessId process_;
  int descriptor_;  // refers to the process itself; -1: the kernel has none
  bool ended_;      // already when the watch began
};

}  // namespace starling
