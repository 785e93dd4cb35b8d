#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "starling/dist/comm/comm.h"
#include "starling/dist/launch/place.h"
#include "starling/dist/launch/store.h"

namespace starling {

struct WorldOptions {
  std::string backend = "";                          // auto, shared, gloo, mpi; empty: STARLING_BACKEND, else auto
  std::filesystem::path secret_file = {};            // empty: STARLING_SECRET, or the file in STARLING_SECRET_FILE
  std::chrono::milliseconds join_deadline{60'000};   // until all ranks have come
  std::chrono::milliseconds call_deadline{300'000};  // of communicator calls that give none
  bool checking = true;                              // fingerprints of all ranks' calls are compared
  std::string all_reduce = "";                       // algorithm by name, over messages between all ranks; empty: any
};

// The ranks that this process runs among, joined. When nobody told it of others: a world of one, whose communicator
// works like any other. Of members that stand on each other the later goes first.
struct World {
  WorldPlace place{};       // local_rank and local_world counted among the ranks that really share the host
  std::uint64_t epoch = 0;  // how many times the starter has started all ranks anew
  std::string backend{};    // what carries the bytes: threads (alone), shared, gloo, mpi, shared+gloo, shared+mpi
  std::string host{};       // name of this host
  struct Ties;              // rendezvous server and connection, where there are such
  std::shared_ptr<Ties> ties{};
  std::shared_ptr<Store> store{};
  std::shared_ptr<Comm> comm{};

  bool alone() const { return place.world == 1; }
  bool leads() const { return place.rank == 0; }  // writes files, prints

  // Tells `starling launch` how far this rank is, for its message when the rank dies. Cheap enough for every step:
  // most calls only note the number. Where something else started the ranks it is for the rank's own last words.
  void report_step(std::int64_t step) const;

  // Tells it that this rank has failed, before the others can fail because of it: so it knows whom to name. Call it
  // with an error in hand, before the communicator is aborted or gone. Without a launcher the rank itself writes on
  // stderr how far it was.
  void report_failure(std::string_view why) const;
};

// The one call by which a process becomes a rank: finds its place (find_place), meets the others at the rendezvous and
// connects. Errors of this thread carry the rank from then on. Blocks until all have come. Throws Error when the place
// is told incompletely, when the address is beyond this host and there is no secret, or when ranks are missing at the
// deadline; the message names the address and the missing ranks.
World join_world(const PlaceFlags& flags = {}, const WorldOptions& options = {});

}  // namespace starling
