#pragma once

#include <string>

namespace starling::cli {

struct CommCheck {
  bool wanted = false;
  int ranks = 2;
  std::string backend;  // threads, shared, gloo, mpi; empty: all that are available
};

// Prints latency and bandwidth between ranks. Inside a launched world, measures its ranks, and rank 0 prints; else
// starts ranks itself: threads of this process, and processes over each backend.
int check_comm(const CommCheck& wanted);

}  // namespace starling::cli
