#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "starling/dist/comm/comm.h"

namespace starling {

class Store;

struct SharedWorldOptions {
  std::uint64_t epoch = 0;
  std::string label = "world";
  std::chrono::milliseconds deadline{300'000};          // default for calls that set none
  std::chrono::milliseconds join_deadline{60'000};      // until all ranks have mapped the memory
  std::shared_ptr<dist::RankProgress> rank_progress{};  // of this rank, where it is supervised; of make_shared_comm
  std::vector<std::shared_ptr<dist::RankProgress>> progress_by_rank{};  // the same by rank, of make_shared_comms
  std::function<bool()> stop{};  // polled while ranks join; true: throws Error; null: never
  // Time for a rank to leave another's buffers once the group is broken, before its process is ended; 0: as long as it
  // takes, for debuggers, which may hold a rank anywhere.
  std::chrono::milliseconds visit_patience{10'000};
  int spins = -1;  // polls of a flag before a waiting rank sleeps; -1: chosen by ranks and cores
  // Address space reserved for each rank's arena, an upper bound of its content; pages are taken as they are used. 0:
  // the memory of the machine. Rank 0's value counts.
  std::size_t arena_bytes = 0;
  // Option of make_shared_comms alone: ranks touch each other's whole memory where it lies. Nothing is staged, and the
  // communicators offer no arena, as none is needed.
  bool whole_process = false;
};

// World of ranks that are processes of one host and one user, over one anonymous shared memory found through the store.
// Reductions are in rank order, bitwise equal to those of thread ranks. Buffers inside Comm::arena() are reduced in
// place; others go through the shared memory in chunks, which progress while this rank waits or polls. A rank that dies
// breaks the group within a second, by name. Collective; every rank passes its own rank and a store that no other world
// uses (with_prefix).
std::unique_ptr<Comm> make_shared_comm(Store& store, int rank, int world, const SharedWorldOptions& options = {});

// Communicators of ranks that are threads of this process: element r is for the thread of rank r.
std::vector<std::unique_ptr<Comm>> make_shared_comms(int world, const SharedWorldOptions& options = {});

}  // namespace starling
