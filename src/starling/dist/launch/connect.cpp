#include "starling/dist/launch/connect.h"

#include <fmt/format.h>

#include <algorithm>

#include "starling/dist/comm/checking/checking_comm.h"
#include "starling/dist/comm/hosts/hosts_comm.h"

namespace starling::dist {
namespace {

using Options = ConnectOptions;

BackendOptions backend_options(int rank, int world, const std::string& label, const Options& options) {
  return {.rank = rank,
          .world = world,
          .label = label,
          .epoch = options.epoch,
          .join_deadline = options.join_deadline,
          .call_deadline = options.call_deadline,
          .rank_progress = options.rank_progress,
          .stop = options.stop,
          .all_reduce = options.all_reduce,
          .listen = options.listen};
}

// First backend for one host, or for several, that can be had without a starter of its own; one that this build lacks
// only if there is no other, since it says what is missing.
const CommBackend& automatic_backend(bool one_host) {
  const auto& all = comm_backends().in_order();
  const auto fits = [&](const CommBackend& backend) {
    return backend.one_host == one_host && !backend.brings_ranks() && !backend.is_for_devices();
  };
  auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& backend) { return fits(backend) && backend.there(); });
  if (found == all.end()) found = std::find_if(all.begin(), all.end(), fits);
  check(found != all.end(), "[connect] expected a backend {}, got a build with none",
        one_host ? "for the processes of a host" : "between hosts");
  return *found;
}

void expect_messages(const CommBackend& backend, const std::string& all_reduce) {
  const auto between_hosts = [](const CommBackend& other) { return !other.one_host; };
  check(!backend.one_host || all_reduce.empty(),
        "[connect] expected a backend of messages, {}, with the all-reduce '{}', got {}",
        either(backend_choices(between_hosts)), all_reduce, backend.name);
}

}  // namespace

ConnectedWorld connect_world(const RankInfo& info, const std::shared_ptr<Store>& store, const ConnectOptions& options,
                             MetRanks met) {
  const std::string identity = options.host.empty() ? host_identity() : options.host;
  ConnectedWorld world{.hosts = exchange_hosts(info, *store, identity, options.join_deadline)};
  const HostMap& hosts = world.hosts;
  const bool automatic = options.backend == nullptr && options.all_reduce.empty();
  if (options.backend != nullptr) expect_messages(*options.backend, options.all_reduce);
  const bool in_memory = automatic && hosts.hosts() == 1;
  const CommBackend& backend = in_memory                    ? automatic_backend(true)
                               : met.backend != nullptr     ? *met.backend
                               : options.backend != nullptr ? *options.backend
                                                            : automatic_backend(false);
  check(!backend.one_host || hosts.hosts() == 1,
        "[connect] expected all {} ranks on one host for the backend {}, got {} hosts", info.world, backend.name,
        hosts.hosts());
  world.backend = backend.name;
  world.comm = met.backend == &backend ? std::move(met.comm)
                                       : backend.make(with_prefix(store, world.backend),
                                                      backend_options(info.rank, info.world, "world", options));
  if (automatic && !in_memory && hosts.hosts() < info.world) {
    const CommBackend& memory = automatic_backend(true);
    const std::string label = fmt::format("host {}", hosts.host());
    auto local = memory.make(with_prefix(store, label),
                             backend_options(hosts.local_rank(), hosts.local_world(), label, options));
    world.backend = fmt::format("{}+{}", memory.name, backend.name);
    world.comm = make_hosts_comm(std::move(local), std::move(world.comm), hosts.host_of());
  }
  if (options.checking) world.comm = make_checking(std::move(world.comm));
  return world;
}

}  // namespace starling::dist
