#pragma once

#include <string>

namespace starling::cli {

struct CommCheck {
  bool wanted = false;
  int ranks = 2;
  std::string backend;  // threads, or a name of dist::comm_backends(); empty: all that can be started here
};

// Prints latency and bandwidth between ranks. Inside a launched world, measures its ranks, and rank 0 prints; else
// starts ranks itself: threads of this process, and processes over each backend.
int check_comm(const CommCheck& wanted);

}  // namespace starling::cli
