#include "starling/dist/launch/connect.h"

#include <fmt/format.h>

#include "starling/dist/comm/checking/checking_comm.h"
#include "starling/dist/comm/shared/shared_comm.h"
#include "starling/dist/comm/transport/gloo_comm.h"
#include "starling/dist/comm/transport/mpi_comm.h"

namespace starling {
namespace {

using Options = ConnectOptions;

CommGroup group_of(int rank, int size, const std::string& label, const Options& options) {
  return {.rank = rank, .size = size, .epoch = options.epoch, .label = label, .deadline = options.call_deadline};
}

std::unique_ptr<Comm> shared_memory(Store& store, int rank, int size, const std::string& label,
                                    const Options& options) {
  return make_shared_comm(store, rank, size,
                          {.epoch = options.epoch,
                           .label = label,
                           .deadline = options.call_deadline,
                           .join_deadline = options.join_deadline});
}

std::unique_ptr<Comm> gloo(const std::shared_ptr<Store>& store, const CommGroup& group, const Options& options) {
  return make_gloo_comm(store, group, {.address = options.listen, .join = options.join_deadline});
}

}  // namespace

WorldBackend parse_world_backend(const std::string& text) {
  if (text.empty() || text == "auto") return WorldBackend::automatic;
  if (text == "shared") return WorldBackend::shared;
  if (text == "gloo") return WorldBackend::gloo;
  if (text == "mpi") return WorldBackend::mpi;
  fail("[connect] expected a backend for processes, one of (auto, shared, gloo, mpi), got '{}'", text);
}

ConnectedWorld connect_world(const Place& place, const std::shared_ptr<Store>& store, const ConnectOptions& options,
                             std::unique_ptr<Comm> mpi) {
  const std::string identity = options.host.empty() ? host_identity() : options.host;
  ConnectedWorld world{.hosts = exchange_hosts(place, *store, identity, options.join_deadline)};
  const CommGroup group = group_of(place.rank, place.world, "world", options);
  const bool one_host = world.hosts.hosts == 1;
  if (options.backend == WorldBackend::shared || (options.backend == WorldBackend::automatic && one_host)) {
    check(one_host, "[connect] expected all {} ranks on one host for the backend shared, got {} hosts", place.world,
          world.hosts.hosts);
    world.backend = "shared";
    world.comm = shared_memory(*with_prefix(store, "shared"), place.rank, place.world, "world", options);
  } else if (options.backend == WorldBackend::mpi || mpi != nullptr) {
    world.backend = "mpi";
    world.comm = std::move(mpi);
  } else {
    world.backend = "gloo";
    world.comm = gloo(with_prefix(store, "gloo"), group, options);
  }
  if (options.checking) world.comm = make_checking(std::move(world.comm));
  return world;
}

}  // namespace starling
