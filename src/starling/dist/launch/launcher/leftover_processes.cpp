#include "starling/dist/launch/launcher/leftover_processes.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "starling/base/file/file.h"

namespace starling::dist {
namespace {

constexpr std::chrono::milliseconds kMost{500};
constexpr std::chrono::milliseconds kBetween{5};

std::vector<pid_t> all_processes() {
  std::vector<pid_t> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    if (const int pid = std::atoi(entry->d_name); pid > 0) all.push_back(pid);
  }
  return all;
}

// Empty for one that has ended.
bool has_entry(pid_t pid, const std::string& entry) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  const std::string all = '\0' + std::string(std::istreambuf_iterator<char>(file), {});
  return all.find('\0' + entry + '\0') != std::string::npos;
}

// The descriptor stands for the process that is looked at, whoever gets its number next.
bool kill_if_stray(pid_t pid, const std::string& entry) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process || !has_entry(pid, entry)) return false;
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  return true;
}

}  // namespace

// Until a round finds none: one that is about to be killed may still start another.
void kill_leftovers(const std::string& entry) {
  const auto until = std::chrono::steady_clock::now() + kMost;
  for (bool any = true; any && std::chrono::steady_clock::now() < until;) {
    any = false;
    for (const pid_t pid : all_processes()) any |= kill_if_stray(pid, entry);
    if (any) std::this_thread::sleep_for(kBetween);
  }
}

}  // namespace starling::dist
