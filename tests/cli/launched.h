// Ranks of `starling launch` that run beside a test, which disturbs them.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <iterator>
#include <sstream>
#include <vector>

#include "cli/program.h"

namespace starling::testing {

inline std::vector<pid_t> children_of(pid_t parent) {
  std::istringstream list(file_text(fmt::format("/proc/{0}/task/{0}/children", parent)));
  return {std::istream_iterator<pid_t>(list), {}};
}

inline bool is_rank(pid_t process, int rank) {
  const std::string wanted = fmt::format("STARLING_RANK={}", rank);
  std::istringstream variables(file_text(fmt::format("/proc/{}/environ", process)));
  for (std::string variable; std::getline(variables, variable, '\0');) {
    if (variable == wanted) return true;
  }
  return false;
}

// Process of a rank of a launch: the child of one of the launcher's guards with that rank in its environment; -1: none.
inline pid_t process_of(pid_t launcher, int rank) {
  for (const pid_t guard : children_of(launcher)) {
    for (const pid_t child : children_of(guard)) {
      if (is_rank(child, rank)) return child;
    }
  }
  return -1;
}

// `starling launch <arguments>`, in words of the shell; killed with this object. `within`: a command that becomes the
// one that follows it, as env does.
class Launched {
 public:
  Launched(const std::filesystem::path& folder, const std::string& arguments, const std::string& within = "")
      : log_(folder / "log") {
    const std::string line = "exec " + within + " '" + program_path().string() + "' launch " + arguments;
    launcher_ = ::fork();
    if (launcher_ != 0) return;
    const int fd = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, 1);
    ::dup2(fd, 2);
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(99);
  }
  ~Launched() {
    int status = 0;
    if (launcher_ > 0) wait_for(launcher_, status, std::chrono::milliseconds(0));
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t launcher() const { return launcher_; }
  pid_t rank(int rank) const { return process_of(launcher_, rank); }
  std::string log() const { return file_text(log_); }

  // Exit code; -1 if it had to be killed.
  int wait(std::chrono::milliseconds most) {
    int status = 0;
    const bool ended = wait_for(std::exchange(launcher_, -1), status, most);
    return ended && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  const std::filesystem::path log_;
  pid_t launcher_ = -1;
};

// Waits for something to hold.
template <class Holds>
bool comes_true(Holds holds, std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return holds();
}

// Sends a signal to a process that a test found: never to a group, whatever the number.
inline void send(pid_t process, int signal) {
  if (process > 0) ::kill(process, signal);
}

// The launcher's last line: "starling: rank 1 (pid 4711 on alpha) …; the other rank was ended".
inline std::string headline(const std::string& log) {
  std::istringstream lines(log);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("starling: ") && has(line, "ended")) found = line;
  }
  return found;
}

}  // namespace starling::testing
