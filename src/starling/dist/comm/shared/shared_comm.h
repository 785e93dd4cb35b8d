#pragma once

#include <memory>
#include <vector>

#include "starling/dist/comm/comm.h"

namespace starling {

class Store;

struct SharedWorldOptions {
  std::uint64_t epoch = 0;
  std::string label = "world";
  std::chrono::milliseconds deadline{300'000};      // of calls that give none
  std::chrono::milliseconds join_deadline{60'000};  // until all ranks have mapped the memory
  int spins = -1;  // looks at a flag before a waiting rank sleeps; -1: as it fits ranks and cores
  // Address space kept for each rank's arena, at least what it will ever hold; pages are taken as they are used. 0: the
  // memory of the machine. Rank 0's value counts.
  std::size_t arena_bytes = 0;
};

// A world of ranks that are processes of one host and one user: they share one nameless piece of memory, found through
// the store. Reductions are in rank order, so results are those of thread ranks, bit for bit. Buffers inside
// Comm::arena() are reduced where they lie; others go through the shared memory in chunks, which move on while this
// rank waits or polls. A rank that dies breaks the group within a second, by name. Collective; every rank gives a rank
// of its own and a store with the same values in it, unused by other worlds (with_prefix).
std::unique_ptr<Comm> make_shared_comm(Store& store, int rank, int world, const SharedWorldOptions& options = {});

// The same with ranks that are threads of this process: element r is for the thread of rank r.
std::vector<std::unique_ptr<Comm>> make_shared_comms(int world, const SharedWorldOptions& options = {});

}  // namespace starling
