#include "starling/dist/launch/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

namespace starling::dist {
namespace {

struct Pipe {
  UniqueFd read, write;
};

Pipe make_pipe() {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC) == 0, "[launch] no pipe: {}", errno_text());
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Pseudo-terminal in raw mode: reading end here, terminal for the child.
Pipe make_terminal() {
  int ours = -1, theirs = -1;
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0;
  check(::openpty(&ours, &theirs, nullptr, nullptr, known ? &size : nullptr) == 0, "[launch] no terminal: {}",
        errno_text());
  Pipe ends{UniqueFd(ours), UniqueFd(theirs)};
  for (const int fd : {ours, theirs}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  termios raw{};
  ::tcgetattr(theirs, &raw);
  ::cfmakeraw(&raw);
  ::tcsetattr(theirs, TCSANOW, &raw);
  return ends;
}

void never_block(const UniqueFd& fd) { ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

struct Ends {
  int input, output, error, complaint;
  pid_t parent;
};

// Runs between fork and exec: system calls only, since other threads may have held any lock.
[[noreturn]] void become(char* const* argv, char* const* environment, const Ends& ends) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != ends.parent) ::_exit(127);  // parent died before PDEATHSIG was set
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2})
    ::signal(signal, SIG_DFL);
  ::signal(SIGTTOU, SIG_IGN);  // the child's group is in the background of the terminal
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(ends.input, 0) >= 0 && ::dup2(ends.output, 1) >= 0 && ::dup2(ends.error, 2) >= 0)
    ::execvpe(argv[0], argv, environment);
  const int why = errno;
  [[maybe_unused]] const auto told = ::write(ends.complaint, &why, sizeof why);
  ::_exit(127);
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string describe(const Exit& exit) {
  return exit.signal != 0 ? fmt::format("was killed by {}", signal_name(exit.signal))
                          : fmt::format("exited with code {}", exit.code);
}

Child::Child(const ChildOptions& options) {
  Pipe in = options.input ? make_pipe() : Pipe{{}, UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC))};
  Pipe out = make_pipe(), err = options.error_terminal ? make_terminal() : make_pipe(), complaint = make_pipe();
  const auto argv = pointers(options.argv), environment = pointers(options.environment);
  const Ends ends{options.input ? in.read.get() : in.write.get(), out.write.get(), err.write.get(),
                  complaint.write.get(), ::getpid()};
  pid_ = ::fork();
  if (pid_ == 0) become(argv.data(), environment.data(), ends);
  check(pid_ > 0, "[launch] no new process: {}", errno_text());
  ::setpgid(pid_, pid_);  // in parent and child, whichever comes first: the group must exist before we signal it
  complaint.write = UniqueFd();
  int why = 0;
  ssize_t got = 0;
  while ((got = ::read(complaint.read.get(), &why, sizeof why)) < 0 && errno == EINTR) {
  }
  if (got > 0) {
    ::waitpid(pid_, nullptr, 0);
    errno = why;
    fail("[launch] could not start '{}': {}", options.argv[0], errno_text());
  }
  if (options.input) input = std::move(in.write);
  output = std::move(out.read);
  error = std::move(err.read);
  for (const UniqueFd* fd : {&input, &output, &error}) {
    if (*fd) never_block(*fd);
  }
  ended = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

Child::Child(Child&& other) noexcept
    : input(std::move(other.input)),
      output(std::move(other.output)),
      error(std::move(other.error)),
      ended(std::move(other.ended)),
      pid_(std::exchange(other.pid_, -1)),
      exit_(other.exit_) {}

Child::~Child() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  while (!exit_ && ::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Child::reap() {
  int status = 0;
  if (exit_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return;
  exit_ = WIFSIGNALED(status) ? Exit{0, WTERMSIG(status)} : Exit{WEXITSTATUS(status), 0};
}

void Child::signal(int signal) { ::kill(-pid_, signal); }

}  // namespace starling::dist
