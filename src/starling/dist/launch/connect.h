#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "starling/dist/comm/backend.h"
#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/hosts/host_map.h"
#include "starling/dist/launch/rank_info.h"
#include "starling/dist/launch/store/store.h"

namespace starling::dist {

struct ConnectOptions {
  // Exactly this backend. Null: automatic, memory among the ranks of a host and the first backend of this build that
  // reaches others between hosts, or the one that started the processes (MPI).
  const CommBackend* backend = nullptr;
  std::uint64_t epoch = 0;
  std::chrono::milliseconds join_deadline{60'000};
  std::chrono::milliseconds call_deadline{300'000};
  bool checking = true;
  std::shared_ptr<RankProgress> rank_progress{};  // of this rank, if it is supervised
  std::function<bool()> stop{};                   // polled while ranks connect; true: throws Error; null: never
  std::string all_reduce{};  // algorithm name, run over messages between all ranks, inside a host too; empty: any
  std::string listen = "127.0.0.1";  // address of this host for the others
  std::string host{};                // identity of this rank's host; empty: host_identity()
};

// Identity of this host: boot, host name, user and process namespace. Processes can share memory exactly if it is
// equal. STARLING_HOST overrides it, so that one machine can emulate several.
std::string host_identity(const Variables& variables = process_environment());

// Number of each rank's host, in the order of their first ranks.
std::vector<int> number_hosts(const std::vector<std::string>& identities);
// Collective: exchanges the identities of all ranks through the store.
HostMap exchange_hosts(const RankInfo& info, Store& store, const std::string& identity,
                       std::chrono::milliseconds deadline);

struct ConnectedWorld {
  std::unique_ptr<Comm> comm{};
  std::string
      backend{};  // name of the backend; shared+gloo, shared+mpi: the first inside hosts, the other between them
  HostMap hosts;
};

// Communicator of all ranks that exists already, made by a backend that brings its ranks.
struct MetRanks {
  const CommBackend* backend = nullptr;
  std::unique_ptr<Comm> comm{};
};

// Connects all ranks of the world. Collective. The store must not be used by anything else (with_prefix).
ConnectedWorld connect_world(const RankInfo& info, const std::shared_ptr<Store>& store, const ConnectOptions& options,
                             MetRanks met = {});

}  // namespace starling::dist
