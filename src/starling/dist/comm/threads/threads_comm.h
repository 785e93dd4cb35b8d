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
  std::chrono::milliseconds deadline{300'000};  // of calls that give none
  int spins = -1;  // tests of a flag before a waiting rank sleeps; -1: a few microseconds if there are cores enough
};

// A world of ranks that are threads of this process: element r is for the thread of rank r. They reduce straight out of
// each other's buffers, in rank order, so results do not depend on the order of arrival. The communicators may be
// destroyed in any order; one destroyed while others still need it is an error on those.
std::vector<std::unique_ptr<Comm>> make_thread_comms(int world, const ThreadWorldOptions& options = {});

// Runs body(comm) for all ranks at once, each on a thread of its own that errors are attributed to, and returns when
// all have ended. A body that throws aborts its communicator, so that the others end too; the first to fail is rethrown
// here.
void run_ranks(std::span<const std::unique_ptr<Comm>> comms, FunctionRef<void(Comm&)> body);

}  // namespace starling
