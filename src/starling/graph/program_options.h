#pragma once

#include <cstddef>
#include <set>
#include <string>

namespace starling::graph {

// True if this build proves the memory use of every program (runtime/memory/alias_check.h): builds with tests or
// assertions do.
bool checks_by_default();

// Options of one program, which passes and lowering read. Whatever stands between a user and them hands this struct on
// as it is; CompileOptions has its fields in the open, so that users can designate them, and SessionOptions those that
// concern one rank and lane (runtime/user_options.h).
struct ProgramOptions {
  std::set<std::string> disable = {};  // names of passes, or "all"
  int threads = 0;                     // of all compute lanes together; 0: num_threads()
  bool reuse_memory = true;            // off: every value has its own memory, for tests and debugging
  bool reference_only = false;         // reference kernels only: the oracle
  bool check_aliases = checks_by_default();
  std::size_t memory_budget = 0;  // limit of bytes, met by recomputing values: of the arena; for passes, of live values
  int branches = 1;               // compute lanes for independent branches, which share the threads
  bool overlap = true;            // off: collectives run in the compute lane and are not overlapped
  // Bytes of small gradients that are reduced in one exchange; the first bucket is smaller, so that it starts early.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  std::size_t first_bucket_bytes = std::size_t{1} << 20;

  int all_threads() const;   // `threads`, or num_threads() now
  int lane_threads() const;  // of each compute lane, at least one
};

}  // namespace starling::graph
