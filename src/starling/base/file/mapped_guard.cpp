#include "starling/base/file/mapped_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "starling/base/error.h"

namespace starling {
namespace {

// A guarded file. The handler reads begin and end, and sets `cut`, without locks; `name` is for threads that hold the
// mutex.
struct Guarded {
  std::atomic<std::uintptr_t> begin{0};  // 0: free
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> cut{false};
  std::string name;
};

std::array<Guarded, kMostGuarded>& all_guarded() {
  static auto* all = new std::array<Guarded, kMostGuarded>();  // lives as long as the handler may run
  return *all;
}

std::mutex guarded_mutex;
std::atomic<std::size_t> used_slots{0};  // slots below this one may be in use
std::atomic<std::size_t> cut_files{0};
struct sigaction before_guard {};

// Puts zero pages over the guarded bytes from `address` on, all of which are gone if that one is. False: not guarded.
bool cover(std::uintptr_t address) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto& all = all_guarded();
  for (std::size_t i = 0; i < used_slots.load(); ++i) {
    const std::uintptr_t begin = all[i].begin.load(), end = all[i].end.load();
    if (begin == 0 || address < begin || address >= end) continue;
    const std::uintptr_t from = address - address % page;
    const long covered =
        ::syscall(SYS_mmap, from, end - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (covered == -1) return false;
    if (!all[i].cut.exchange(true)) ++cut_files;
    return true;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  if (cover(reinterpret_cast<std::uintptr_t>(info->si_addr))) return;
  if ((before_guard.sa_flags & SA_SIGINFO) != 0 && before_guard.sa_sigaction != nullptr)
    return before_guard.sa_sigaction(signal, info, context);
  if (before_guard.sa_handler != SIG_DFL && before_guard.sa_handler != SIG_IGN) return before_guard.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // the faulting instruction runs again, and ends the process
}

void install() {
  static_cast<void>(all_guarded());
  static_cast<void>(cover(0));  // initialises what the handler must not
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &before_guard);
}

}  // namespace

void guard_mapped(const void* begin, std::size_t size, const std::string& name) {
  static std::once_flag once;
  std::call_once(once, install);
  const std::scoped_lock lock(guarded_mutex);
  auto& all = all_guarded();
  for (std::size_t i = 0; i < kMostGuarded; ++i) {
    Guarded& slot = all[i];
    if (slot.begin.load() != 0) continue;
    slot.name = name;
    slot.cut = false;
    slot.end = reinterpret_cast<std::uintptr_t>(begin) + size;
    slot.begin = reinterpret_cast<std::uintptr_t>(begin);
    if (i >= used_slots.load()) used_slots = i + 1;
    return;
  }
}

void unguard_mapped(const void* begin) {
  const std::scoped_lock lock(guarded_mutex);
  auto& all = all_guarded();
  for (std::size_t i = 0; i < used_slots.load(); ++i) {
    if (all[i].begin.load() != reinterpret_cast<std::uintptr_t>(begin)) continue;
    all[i].begin = 0;
    if (all[i].cut.exchange(false)) --cut_files;
    return;
  }
}

void check_mapped(const void* data) {
  if (cut_files.load(std::memory_order_relaxed) == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::string name;
  {
    const std::scoped_lock lock(guarded_mutex);
    auto& all = all_guarded();
    for (std::size_t i = 0; i < used_slots.load(); ++i) {
      const bool here = address >= all[i].begin.load() && address < all[i].end.load();
      if (here && all[i].begin.load() != 0 && all[i].cut.load()) name = all[i].name;
    }
  }
  if (name.empty()) return;
  fail(
      "[file] expected {} to stay as it was while it is read, got one that was cut off or that the disk cannot read "
      "(write other files beside it and rename them)",
      name);
}

}  // namespace starling
