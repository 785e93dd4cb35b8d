#include "starling/dist/launch/launcher/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include "starling/dist/launch/launcher/guard.h"
#include "starling/dist/launch/launcher/leftover_processes.h"
#include "starling/dist/launch/store/secret.h"

namespace starling::dist {
namespace {

struct Pipe {
  UniqueFd read, write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("[launch] expected to make a pipe, got: {}", errno_text());
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Pseudo-terminal in raw mode: reading end here, terminal for the child.
Pipe make_terminal() {
  int ours = -1, theirs = -1;
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0;
  if (::openpty(&ours, &theirs, nullptr, nullptr, known ? &size : nullptr) != 0)
    fail("[launch] expected to make a terminal, got: {}", errno_text());
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

constexpr std::string_view kMark = "STARLING_CHILD=";

std::vector<std::string> with_mark(std::vector<std::string> environment, const std::string& mark) {
  std::erase_if(environment, [](const std::string& entry) { return entry.starts_with(kMark); });
  environment.push_back(mark);
  return environment;
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

Child::Child(const ChildOptions& options) : mark_(fmt::format("{}{}", kMark, make_secret().substr(0, 16))) {
  Pipe in = options.input ? make_pipe() : Pipe{{}, UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC))};
  Pipe out = make_pipe(), err = options.error_terminal ? make_terminal() : make_pipe();
  Pipe started = make_pipe(), lifeline = make_pipe(), exit = make_pipe();
  const auto marked = with_mark(options.environment, mark_);
  const auto argv = pointers(options.argv), environment = pointers(marked);
  const GuardOptions guarded{.argv = argv.data(),
                             .environment = environment.data(),
                             .input = options.input ? in.read.get() : in.write.get(),
                             .output = out.write.get(),
                             .error = err.write.get(),
                             .lifeline = lifeline.read.get(),
                             .started = started.write.get(),
                             .ended = exit.write.get()};
  lifeline_ = std::move(lifeline.write);
  guard_ = ::fork();
  if (guard_ == 0) {
    ::close(lifeline_.get());
    guard(guarded);
  }
  if (guard_ < 0) fail("[launch] expected to start a process, got: {}", errno_text());
  for (UniqueFd* theirs : {&started.write, &exit.write}) *theirs = UniqueFd();
  await_start(started.read, options.argv[0]);
  if (options.input) input = std::move(in.write);
  output = std::move(out.read);
  error = std::move(err.read);
  ended = std::move(exit.read);
  for (const UniqueFd* fd : {&input, &output, &error, &ended}) {
    if (*fd) never_block(*fd);
  }
}

// Reads both notes, the guard's and, if the program could not be executed, its own; they come in any order.
void Child::await_start(const UniqueFd& started, const std::string& program) {
  GuardNote note{}, failed{};
  ssize_t got = 0;
  while ((got = ::read(started.get(), &note, sizeof note)) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof note) break;
    if (note.pid > 0) pid_ = note.pid;
    if (note.why != 0) failed = note;
  }
  if (pid_ > 0 && failed.why == 0) return;
  end_guard();
  errno = failed.why;
  fail("[launch] could not start '{}': {}", program, failed.why != 0 ? errno_text() : "its guard was killed");
}

Child::Child(Child&& other) noexcept
    : input(std::move(other.input)),
      output(std::move(other.output)),
      error(std::move(other.error)),
      ended(std::move(other.ended)),
      lifeline_(std::move(other.lifeline_)),
      mark_(std::move(other.mark_)),
      guard_(std::exchange(other.guard_, -1)),
      pid_(std::exchange(other.pid_, -1)),
      exit_(other.exit_) {}

Child::~Child() { end_guard(); }

void Child::end_guard() {
  if (guard_ < 0) return;
  lifeline_ = UniqueFd();
  int status = 0;
  while (::waitpid(guard_, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) kill_leftovers(mark_);
  guard_ = -1;
}

void Child::reap() {
  if (exit_) return;
  Exit exit{};
  const ssize_t got = ::read(ended.get(), &exit, sizeof exit);
  if (got == sizeof exit) exit_ = exit;
  if (got != 0) return;
  exit_ = Exit{0, SIGKILL};  // someone killed the guard, and with it the program
  kill_leftovers(mark_);
}

// The guard keeps the program's number, and its group's, from being given to others until it is itself reaped.
void Child::signal(int signal) {
  if (guard_ > 0 && !(exit_ && guard_gone())) ::kill(-pid_, signal);
}

bool Child::guard_gone() const {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(guard_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == guard_;
}

}  // namespace starling::dist
