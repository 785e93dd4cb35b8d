#pragma once

#include <memory>
#include <span>
#include <vector>

#include "starling/base/function_ref.h"
#include "starling/dist/comm/comm.h"

namespace starling {

struct ThreadWorldOptions {
  std::uint64_t epoch = 0;
  std::string label = "world";
  std::chrono::milliseconds deadline{300'000};                          // default for calls that set none
  std::vector<std::shared_ptr<dist::RankProgress>> progress_by_rank{};  // by rank, where ranks are supervised
  // Time for a rank to leave another's buffers once the group is broken, before the process is ended; 0: as long as it
  // takes, for debuggers.
  std::chrono::milliseconds visit_patience{10'000};
  int spins = -1;  // polls of a flag before a waiting rank sleeps; -1: a few microseconds if there are cores enough
};

// World of ranks that are threads of this process: element r is for the thread of rank r. Ranks reduce straight out of
// each other's buffers, in rank order, so results do not depend on arrival order. The communicators may be destroyed in
// any order; destroying one that others still need is an error on those.
std::vector<std::unique_ptr<Comm>> make_thread_comms(int world, const ThreadWorldOptions& options = {});

// Runs body(comm) for all ranks at once, each on its own thread tagged with its rank for error messages, and returns
// when all have ended. A body that throws aborts its communicator, so that the others end too; the first failure is
// rethrown.
void run_ranks(std::span<const std::unique_ptr<Comm>> comms, FunctionRef<void(Comm&)> body);

}  // namespace starling
