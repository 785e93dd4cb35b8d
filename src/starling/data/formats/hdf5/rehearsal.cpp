#include "starling/data/formats/hdf5/rehearsal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "starling/base/error.h"

namespace starling::data {
namespace {

using Clock = std::chrono::steady_clock;

// A crash ends the child at once: no handler of the program, no core file, no words on its terminal.
void leave_quietly() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGINT}) ::signal(number, SIG_DFL);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  if (nowhere < 0) return;
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
}

// Report of a child whose work ended; any other report is the message of its error.
constexpr char kDone = '\0';
constexpr std::size_t kMostMessage = 4000;  // a pipe takes it at once

[[noreturn]] void act(FunctionRef<void()> work, int report) {
  leave_quietly();
  set_thread_rank(-1);  // the parent's error names the rank
  std::string told(1, kDone);
  try {
    work();
  } catch (const std::exception& error) {
    told = std::string(error.what()).substr(0, kMostMessage);
  }
  ::_exit(::write(report, told.data(), told.size()) == std::ssize(told) ? 0 : 1);
}

// Report of the child before the deadline; empty if it ends without one.
std::string report_of(int pipe, Clock::time_point until) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return "";
    pollfd waiting{pipe, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return "";
    if (ready <= 0) continue;
    std::string told(kMostMessage, ' ');
    const auto size = ::read(pipe, told.data(), told.size());
    return told.substr(0, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  }
}

}  // namespace

void rehearse(const std::string& file, FunctionRef<void()> work, std::chrono::seconds deadline) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    fail("[hdf5] {}: expected a pipe to a child process, got: {}", file, std::strerror(errno));
  const auto until = Clock::now() + deadline;
  const pid_t child = ::fork();
  if (child == 0) act(work, ends[1]);
  const int error = errno;
  ::close(ends[1]);
  const std::string told = child > 0 ? report_of(ends[0], until) : "";
  const bool late = Clock::now() + std::chrono::milliseconds(10) >= until;  // waits may end a little early
  ::close(ends[0]);
  check(child > 0, "[hdf5] {}: expected a child process to try the file in, got: {}", file, std::strerror(error));
  ::kill(child, SIGKILL);  // the child has reported, has ended, or never will
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  check(!told.empty(), "[hdf5] {}: expected an HDF5 file that is whole, got a damaged one: reading it {}", file,
        late ? "does not end" : "crashes libhdf5");
  if (told[0] != kDone) throw Error(told);
}

}  // namespace starling::data
