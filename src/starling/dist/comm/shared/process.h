#pragma once

#include <cstdint>

namespace starling::dist {

// Process of this host. Pids are reused; a pid together with its start time is unique.
struct ProcessId {
  std::int32_t pid = 0;
  std::uint64_t start = 0;  // clock ticks since the host's boot; 0: unknown

  bool operator==(const ProcessId&) const = default;
};

ProcessId this_process();

// Detects the end of a process, including a zombie that its parent has not reaped.
class ProcessWatch {
 public:
  explicit ProcessWatch(const ProcessId& process);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  bool ended() const;
  bool stopped() const;  // by SIGSTOP or the like
  void kill() const;

 private:
  ProcessId process_;
  int descriptor_;  // pidfd; -1: not supported by the kernel
  bool ended_;      // true if already ended when the watch began
};

}  // namespace starling::dist
