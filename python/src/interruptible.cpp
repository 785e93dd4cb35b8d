#include "interruptible.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "held.h"

namespace starling::python {
namespace {

// Ctrl-C arrives in a handler, which may do next to nothing: it wakes a thread that ends the work of the main one.
struct Watch {
  sem_t arrived;
  std::mutex mutex;  // guards what follows
  Comm* comm = nullptr;
  bool active = false;
  std::atomic<bool> asked{false};
  std::atomic<std::uint64_t> turns{0};      // how often work has begun or ended so far
  std::atomic<std::uint64_t> meant_for{0};  // what it was when the last Ctrl-C arrived

  Watch() { ::sem_init(&arrived, 0, 0); }
};

// One of this process, never freed: its thread sleeps until the process ends. A forked process makes its own.
Watch*& watch_of_process() {
  static Watch* own = nullptr;
  return own;
}

struct sigaction& python_handler() {
  static struct sigaction before {};
  return before;
}

bool on_main_thread() {
  thread_local const bool main = ::syscall(SYS_gettid) == ::getpid();
  return main;
}

void on_interrupt(int number, siginfo_t* about, void* context) {
  // Python knows first: work that is ended by it then finds the signal pending.
  const struct sigaction& before = python_handler();
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(number, about, context);
  else
    before.sa_handler(number);
  Watch* const watch = watch_of_process();
  if (!watch) return;
  watch->meant_for.store(watch->turns.load());
  ::sem_post(&watch->arrived);
}

// A handler of the program's own decides what Ctrl-C means: then the work goes on.
bool ends_programs() try {
  const nb::gil_scoped_acquire gil;
  const nb::module_ signals = nb::module_::import_("signal");
  return signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler"));
} catch (const std::exception&) {
  return false;
}

void end_work(Watch& watch) {
  const std::scoped_lock lock(watch.mutex);
  // Before this thread got here Python may have raised KeyboardInterrupt already: work that began since goes on.
  if (!watch.active || watch.meant_for.load() != watch.turns.load()) return;
  watch.asked.store(true);
  if (!watch.comm) return;
  try {
    watch.comm->abort("Ctrl-C");
  } catch (const std::exception&) {
    // The group is broken already: whoever waits is told.
  }
}

void watch_for_interrupts(Watch& watch) {
  while (true) {
    while (::sem_wait(&watch.arrived) != 0) continue;
    if (python_is_there() && ends_programs()) end_work(watch);
  }
}

Watch& watching() {
  Watch*& own = watch_of_process();
  if (own) return *own;
  own = new Watch;
  static const int once = ::pthread_atfork(nullptr, nullptr, [] { watch_of_process() = nullptr; });
  (void)once;
  sigset_t all, mask;  // signals are for the threads of the program
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &mask);
  std::thread(&watch_for_interrupts, std::ref(*own)).detach();
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  return *own;
}

bool is_handled(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

// Puts our handler before Python's, which it calls. It stays: whoever installs another one takes its place.
void hear_interrupts() {
  struct sigaction now {};
  ::sigaction(SIGINT, nullptr, &now);
  const bool ours = (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == &on_interrupt;
  if (ours || !is_handled(now)) return;
  python_handler() = now;
  now.sa_flags |= SA_SIGINFO;
  now.sa_sigaction = &on_interrupt;
  ::sigaction(SIGINT, &now, nullptr);
}

}  // namespace

Interruptible::Interruptible(Comm* comm) {
  if (!on_main_thread()) return;
  Watch& watch = watching();
  {
    const std::scoped_lock lock(watch.mutex);
    if (watch.active) return;  // within another one
    watch.active = outermost_ = true;
    watch.comm = comm;
    watch.asked.store(false);
    ++watch.turns;
  }
  scope_.emplace(watch.asked);
  hear_interrupts();
}

Interruptible::~Interruptible() {
  if (!outermost_) return;
  Watch& watch = watching();
  const std::scoped_lock lock(watch.mutex);
  watch.active = false;
  watch.comm = nullptr;
  ++watch.turns;
}

static bool interrupted_work() { return on_main_thread() && watch_of_process() && watch_of_process()->asked.load(); }

void raise_pending_signal() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  if (!interrupted_work()) return;
  // Ctrl-C ended the work, and Python raised it elsewhere meanwhile: that is what ended it all the same.
  watch_of_process()->asked.store(false);
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw nb::python_error();
}

}  // namespace starling::python
