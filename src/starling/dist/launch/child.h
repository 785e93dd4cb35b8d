#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "starling/base/file.h"

namespace starling {

struct ChildOptions {
  std::vector<std::string> argv{};
  std::vector<std::string> environment{};  // NAME=value, all of it
  bool input = false;                      // its stdin is a pipe from here; else it reads nothing
  bool error_terminal = false;             // its stderr is a terminal of the size of ours, so that it may draw on it
};

// How a process ended.
struct Exit {
  int code = 0;    // when it was not a signal
  int signal = 0;  // that killed it

  bool good() const { return code == 0 && signal == 0; }
};
std::string describe(const Exit& exit);  // "exited with code 3", "was killed by SIGSEGV"
std::string signal_name(int signal);     // SIGSEGV

// A process started from here, the head of a process group of its own, so that whatever it starts can be reached, too.
// It is killed when the thread that started it dies. Its output comes out of two descriptors that never block.
class Child {
 public:
  // Throws Error when it cannot be started.
  explicit Child(const ChildOptions& options);
  ~Child();  // kills what is left of the group, and waits
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  pid_t pid() const { return pid_; }
  const std::optional<Exit>& exit() const { return exit_; }

  // Sees whether it has ended; never waits.
  void reap();
  void signal(int signal);  // to the whole group

  UniqueFd input{}, output{}, error{};
  UniqueFd ended{};  // readable once the process has ended; absent on old kernels

 private:
  pid_t pid_ = -1;
  std::optional<Exit> exit_;
};

}  // namespace starling
