#pragma once

#include <sys/types.h>

#include "starling/dist/launch/launcher/child.h"

namespace starling::dist {

// Notes of a guard about its program, one of each: whether it has been started (GuardNote), and how it ended (Exit).
struct GuardNote {
  pid_t pid = 0;  // of the program; 0: it could not be started, see why
  int why = 0;    // an errno
};

struct GuardOptions {
  char* const* argv = nullptr;
  char* const* environment = nullptr;
  int input = -1, output = -1, error = -1;  // become stdin, stdout and stderr of the program
  int lifeline = -1;                        // reading end of a pipe whose other end only our parent has
  int started = -1;                         // receives a GuardNote
  int ended = -1;                           // receives an Exit
};

// Process between a launcher and a program: it starts the program as the leader of a process group, tells how it ends,
// and when the lifeline closes, which the kernel sees to however the launcher ends, kills everything that the program
// has started. As their subreaper it inherits the descendants that the program leaves behind, also those that have left
// the group (setsid, timeout), and it keeps the ended program unreaped, so that the group's number stays its own. Does
// not return. Called in a forked process: makes system calls only, since other threads may have held any lock.
[[noreturn]] void guard(const GuardOptions& options);

}  // namespace starling::dist
