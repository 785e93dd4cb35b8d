#pragma once

#include <string>

namespace starling::cli {

struct CommCheck {
  bool wanted = false;
  int ranks = 2;
  std::string backend;  // threads, shared, gloo, mpi; empty: those that can be tried from here
};

// Latency and bandwidth between ranks, as tables. Inside ranks that someone else has started: of those, told by rank 0.
// Else of ranks started here: threads of this process, and processes over each backend.
int check_comm(const CommCheck& wanted);

}  // namespace starling::cli
