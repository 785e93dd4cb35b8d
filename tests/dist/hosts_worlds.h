#pragma once

#include <map>

#include "dist/shared_worlds.h"
#include "dist/transport_worlds.h"
#include "starling/dist/comm/hosts/hosts_comm.h"

namespace starling::dist {

// Emulated hosts of thread ranks: the backends within a host and between hosts.
struct HostsKind {
  std::string name;
  std::function<Comms(int size)> local;
  std::function<Comms(int size)> world;
};

inline HostsKind threads_and_threads() {
  return {"threads", [](int n) { return make_thread_comms(n); }, [](int n) { return make_thread_comms(n); }};
}
inline HostsKind shared_and_transport() {
  return {"shared", [](int n) { return shared_comms(n); }, [](int n) { return make_memory_comms(n); }};
}

inline Comms hosts_comms(const HostsKind& kind, const std::vector<int>& host_of) {
  std::map<int, int> sizes;
  for (int host : host_of) ++sizes[host];
  std::map<int, Comms> locals;
  for (const auto& [host, size] : sizes) locals[host] = kind.local(size);
  Comms worlds = kind.world(static_cast<int>(host_of.size())), made(host_of.size());
  std::map<int, std::size_t> next;
  std::vector<std::unique_ptr<Comm>> local_of;
  for (int host : host_of) local_of.push_back(std::move(locals[host][next[host]++]));
  run_ranks(worlds, [&](Comm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    made[rank] = make_hosts_comm(std::move(local_of[rank]), std::move(worlds[rank]), host_of);
  });
  return made;
}

}  // namespace starling::dist
