#include "starling/dist/launch/launcher/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace starling::dist {
namespace {

constexpr int kMostRounds = 5'000;  // of killing, 1 ms each: a process in an uninterruptible wait is left to the kernel

// Descriptors of a guard once the program runs: everything else, also what is meant for others, is closed.
enum : int { kLifeline = 0, kEnded = 1, kSignals = 2 };

[[noreturn]] void become(const GuardOptions& options, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the guard died before PDEATHSIG was set
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2})
    ::signal(signal, SIG_DFL);
  ::signal(SIGTTOU, SIG_IGN);  // the program's group is in the background of the terminal
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(options.input, 0) >= 0 && ::dup2(options.output, 1) >= 0 && ::dup2(options.error, 2) >= 0)
    ::execvpe(options.argv[0], options.argv, options.environment);
  const GuardNote failed{.pid = 0, .why = errno};
  [[maybe_unused]] const auto told = ::write(options.started, &failed, sizeof failed);
  ::_exit(127);
}

void keep_only(int lifeline, int ended, int signals) {
  const int kept[] = {::fcntl(lifeline, F_DUPFD, 3), ::fcntl(ended, F_DUPFD, 3), ::fcntl(signals, F_DUPFD, 3)};
  for (int fd = 0; fd < 3; ++fd) ::dup2(kept[fd], fd);
  if (::syscall(SYS_close_range, 3U, UINT_MAX, 0U) == 0) return;
  for (int fd = 3; fd < 65'536; ++fd) ::close(fd);  // before Linux 5.9
}

// Calls `each` for the children of this process, as far as one look shows them.
template <class Each>
void for_children(Each each) {
  const int list = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (list < 0) return;
  char bytes[4096];
  pid_t pid = 0;
  for (ssize_t got; (got = ::read(list, bytes, sizeof bytes)) > 0;) {
    for (ssize_t i = 0; i < got; ++i) {
      const bool digit = bytes[i] >= '0' && bytes[i] <= '9';
      if (!digit && pid > 0) each(pid);
      pid = digit ? 10 * pid + (bytes[i] - '0') : 0;
    }
  }
  ::close(list);
}

bool tell_end(pid_t program) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(program), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != program)
    return false;
  const Exit exit = info.si_code == CLD_EXITED ? Exit{info.si_status, 0} : Exit{0, info.si_status};
  [[maybe_unused]] const auto told = ::write(kEnded, &exit, sizeof exit);
  return true;
}

void watch(pid_t program) {
  bool told = false;
  for (;;) {
    told = told || tell_end(program);
    for_children([&](pid_t child) {
      if (child != program) ::waitpid(child, nullptr, WNOHANG);
    });
    pollfd waits[] = {{kLifeline, POLLIN, 0}, {kSignals, POLLIN, 0}};
    ::poll(waits, 2, -1);
    if (waits[0].revents != 0) return;
    signalfd_siginfo ignored;
    if (waits[1].revents != 0) [[maybe_unused]]
      const auto got = ::read(kSignals, &ignored, sizeof ignored);
  }
}

// Killed processes leave their children to this one, their subreaper, until none is left.
void kill_all(pid_t program) {
  ::kill(-program, SIGKILL);
  for (int round = 0; round < kMostRounds; ++round) {
    for_children([](pid_t child) { ::kill(child, SIGKILL); });
    pid_t gone = 0;
    while ((gone = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (gone < 0 && errno == ECHILD) return;
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

void guard(const GuardOptions& options) {
  ::setpgid(0, 0);  // signals to the launcher's group, Ctrl-C or a kill, are not for the guard
  ::prctl(PR_SET_NAME, "starling-guard");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t signals;
  ::sigfillset(&signals);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGCHLD);
  const int ended_children = ::signalfd(-1, &signals, SFD_CLOEXEC);
  const pid_t self = ::getpid(), program = ::_Fork();
  if (program == 0) become(options, self);
  const GuardNote note{.pid = program > 0 ? program : 0, .why = program > 0 ? 0 : errno};
  if (program > 0) ::setpgid(program, program);  // here and there: the group must exist before anyone signals it
  [[maybe_unused]] const auto told = ::write(options.started, &note, sizeof note);
  if (program < 0) ::_exit(127);
  keep_only(options.lifeline, options.ended, ended_children);
  watch(program);
  kill_all(program);
  ::_exit(0);
}

}  // namespace starling::dist
