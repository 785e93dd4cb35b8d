#include "starling/dist/launch/connect.h"

#include <fmt/format.h>

#include "starling/dist/comm/checking/checking_comm.h"
#include "starling/dist/comm/hosts/hosts_comm.h"
#include "starling/dist/comm/shared/shared_comm.h"
#include "starling/dist/comm/transport/gloo_comm.h"
#include "starling/dist/comm/transport/mpi_comm.h"

namespace starling::dist {
namespace {

using Options = ConnectOptions;

std::unique_ptr<Comm> shared_memory(Store& store, int rank, int size, const std::string& label,
                                    const Options& options) {
  SharedWorldOptions how{.epoch = options.epoch,
                         .label = label,
                         .deadline = options.call_deadline,
                         .join_deadline = options.join_deadline,
                         .pulse = options.pulse,
                         .stop = options.stop};
  if (options.pulse == nullptr) how.visit_patience = {};  // not supervised: a debugger may hold a rank anywhere
  return make_shared_comm(store, rank, size, how);
}

std::unique_ptr<Comm> gloo(const std::shared_ptr<Store>& store, const RankInfo& info, const Options& options) {
  const CommGroup group{.rank = info.rank,
                        .size = info.world,
                        .epoch = options.epoch,
                        .label = "world",
                        .deadline = options.call_deadline,
                        .pulse = options.pulse};
  return make_gloo_comm(store, group, {.address = options.listen, .join = options.join_deadline, .stop = options.stop},
                        reducing_by(options.all_reduce));
}

}  // namespace

WorldBackend parse_world_backend(const std::string& text) {
  if (text.empty() || text == "auto") return WorldBackend::automatic;
  if (text == "shared") return WorldBackend::shared;
  if (text == "gloo") return WorldBackend::gloo;
  if (text == "mpi") return WorldBackend::mpi;
  fail("[connect] expected a backend for processes, one of (auto, shared, gloo, mpi), got '{}'", text);
}

ConnectedWorld connect_world(const RankInfo& info, const std::shared_ptr<Store>& store, const ConnectOptions& options,
                             std::unique_ptr<Comm> mpi) {
  const std::string identity = options.host.empty() ? host_identity() : options.host;
  ConnectedWorld world{.hosts = exchange_hosts(info, *store, identity, options.join_deadline)};
  const HostMap& hosts = world.hosts;
  const bool automatic = options.backend == WorldBackend::automatic && options.all_reduce.empty();
  check(options.backend != WorldBackend::shared || options.all_reduce.empty(),
        "[connect] expected a backend of messages, auto, gloo or mpi, with the all-reduce '{}', got shared",
        options.all_reduce);
  if (options.backend == WorldBackend::shared || (automatic && hosts.hosts() == 1)) {
    check(hosts.hosts() == 1, "[connect] expected all {} ranks on one host for the backend shared, got {} hosts",
          info.world, hosts.hosts());
    world.backend = "shared";
    world.comm = shared_memory(*with_prefix(store, "shared"), info.rank, info.world, "world", options);
  } else {
    world.backend = mpi != nullptr ? "mpi" : "gloo";
    world.comm = mpi != nullptr ? std::move(mpi) : gloo(with_prefix(store, "gloo"), info, options);
    if (automatic && hosts.hosts() < info.world) {
      const std::string label = fmt::format("host {}", hosts.host());
      auto local = shared_memory(*with_prefix(store, label), hosts.local_rank(), hosts.local_world(), label, options);
      world.backend = "shared+" + world.backend;
      world.comm = make_hosts_comm(std::move(local), std::move(world.comm), hosts.host_of());
    }
  }
  if (options.checking) world.comm = make_checking(std::move(world.comm));
  return world;
}

}  // namespace starling::dist
