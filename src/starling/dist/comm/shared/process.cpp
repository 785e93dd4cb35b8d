#include "starling/dist/comm/shared/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

namespace starling::dist {
namespace {

// Field of /proc/<pid>/stat, from 3 on; empty if unknown. Counted after the closing bracket of field 2, the name, which
// may hold anything.
std::string stat_field(std::int32_t pid, int number) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::array<char, 1024> text{};
  const ssize_t length = read(file, text.data(), text.size() - 1);
  close(file);
  if (length <= 0) return {};
  const std::string stat(text.data(), static_cast<std::size_t>(length));
  std::size_t at = stat.rfind(')');
  for (int field = 2; field < number && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  return at == std::string::npos ? "" : stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

std::uint64_t start_of(std::int32_t pid) { return std::strtoull(stat_field(pid, 22).c_str(), nullptr, 10); }

bool gone(const ProcessId& process) {
  if (::kill(process.pid, 0) != 0 && errno == ESRCH) return true;
  const std::uint64_t start = start_of(process.pid);
  return process.start != 0 && start != 0 && start != process.start;
}

}  // namespace

ProcessId this_process() {
  const auto pid = static_cast<std::int32_t>(getpid());
  return {pid, start_of(pid)};
}

// Start time compared after the descriptor was opened: the pid may have been reused by another process.
ProcessWatch::ProcessWatch(const ProcessId& process)
    : process_(process),
      descriptor_(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0))),
      ended_(gone(process)) {}

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool ProcessWatch::ended() const {
  if (ended_ || descriptor_ < 0) return ended_ || gone(process_);
  pollfd state{descriptor_, POLLIN, 0};
  return poll(&state, 1, 0) > 0;
}

bool ProcessWatch::stopped() const { return !ended() && stat_field(process_.pid, 3) == "T"; }

void ProcessWatch::kill() const {
  if (descriptor_ >= 0) {
    syscall(SYS_pidfd_send_signal, descriptor_, SIGKILL, nullptr, 0);
  } else if (!ended()) {
    ::kill(process_.pid, SIGKILL);
  }
}

}  // namespace starling::dist
