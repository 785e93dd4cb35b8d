#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/dist/launch/place.h"
#include "starling/dist/launch/store.h"

namespace starling {

// What carries bytes between processes. automatic: shared memory among the ranks of a host, Gloo between hosts, or MPI
// where that started the processes. The others are that and nothing else.
enum class WorldBackend { automatic, shared, gloo, mpi };
WorldBackend parse_world_backend(const std::string& text);  // auto, shared, gloo, mpi; throws Error naming them

struct ConnectOptions {
  WorldBackend backend = WorldBackend::automatic;
  std::uint64_t epoch = 0;
  std::chrono::milliseconds join_deadline{60'000};
  std::chrono::milliseconds call_deadline{300'000};
  bool checking = true;
  std::string all_reduce{};  // a named algorithm runs over messages between all ranks, inside a host too; empty: any
  std::string listen = "127.0.0.1";  // this host's address for the others
  std::string host{};                // which host this rank counts to; empty: host_identity()
};

// Memory can be shared exactly with processes of the same text: boot, host name, user and process namespace.
// STARLING_HOST stands for it where it is set, so that one machine can play several.
std::string host_identity(const Variables& variables = process_environment());

// The hosts of a world's ranks, numbered in the order of their first ranks.
struct HostMap {
  std::vector<int> host_of;  // by rank
  int hosts = 1;

  int local_rank(int rank) const;
  int local_world(int rank) const;
};
HostMap map_hosts(const std::vector<std::string>& identities);
// Collective: every rank writes its own into the store and learns all.
HostMap exchange_hosts(const WorldPlace& place, Store& store, const std::string& identity,
                       std::chrono::milliseconds deadline);

struct ConnectedWorld {
  std::unique_ptr<Comm> comm{};
  std::string backend{};  // shared, gloo, mpi, shared+gloo, shared+mpi
  HostMap hosts{};
};

// Collective, for all ranks of the place's world. The store is used by nothing else (with_prefix). mpi: a communicator
// over MPI that is there already; null: none, and WorldBackend::mpi makes one.
ConnectedWorld connect_world(const WorldPlace& place, const std::shared_ptr<Store>& store,
                             const ConnectOptions& options, std::unique_ptr<Comm> mpi = nullptr);

}  // namespace starling
