#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "starling/base/file/file.h"

namespace starling::dist {

struct ChildOptions {
  std::vector<std::string> argv{};
  std::vector<std::string> environment{};  // complete, as NAME=value
  bool input = false;                      // stdin is a pipe from this process; else empty
  bool error_terminal = false;             // stderr is a pseudo-terminal of our size, to draw on
};

// Exit status of a process.
struct Exit {
  int code = 0;    // if not killed by a signal
  int signal = 0;  // signal that killed it

  bool good() const { return code == 0 && signal == 0; }
};
std::string describe(const Exit& exit);  // "exited with code 3", "was killed by SIGSEGV"
std::string signal_name(int signal);     // SIGSEGV

// Child process that leads its own process group, so that its descendants can be signalled, too. Its parent is a guard
// (guard.h), through which it and all its descendants die with this process, however that ends. Should the guard be
// killed, this process kills the descendants, which it knows by an entry of their environment. Output comes from two
// non-blocking descriptors.
class Child {
 public:
  // Throws Error if the process cannot be started.
  explicit Child(const ChildOptions& options);
  ~Child();  // kills it and all its descendants, and waits
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  pid_t pid() const { return pid_; }
  const std::optional<Exit>& exit() const { return exit_; }

  // Checks for the end of the process; never blocks.
  void reap();
  void signal(int signal);  // signals the whole group

  UniqueFd input{}, output{}, error{};
  UniqueFd ended{};  // readable once the process has ended

 private:
  void await_start(const UniqueFd& started, const std::string& program);
  void end_guard();
  bool guard_gone() const;

  UniqueFd lifeline_{};  // the guard kills everything when it closes
  std::string mark_{};   // in the environment of the program and its descendants
  pid_t guard_ = -1;
  pid_t pid_ = -1;
  std::optional<Exit> exit_;
};

}  // namespace starling::dist
