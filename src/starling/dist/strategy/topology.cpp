#include "starling/dist/strategy/topology.h"

#include "starling/base/error.h"

namespace starling::dist {

Settings Topology::settings() {
  using T = Topology;
  return {
      setting("worker_groups", &T::worker_groups, "groups of workers; synchronous inside a group", {.min = 1}),
      setting("workers_per_group", &T::workers_per_group, "workers in each of them", {.min = 1}),
      setting("server_groups", &T::server_groups, "groups of parameter servers", {.min = 0}),
      setting("servers_per_group", &T::servers_per_group, "servers in each of them", {.min = 0}),
      setting("codec", &T::codec, "wire form of the gradients inside a group of several, by its name or with options")};
}

void Topology::validate(std::int64_t world) const {
  check(worker_groups >= 1 && workers_per_group >= 1,
        "[topology] expected at least one group of at least one worker, got {} of {}", worker_groups,
        workers_per_group);
  check(server_groups >= 0 && (server_groups == 0) == (servers_per_group == 0),
        "[topology] expected both server_groups and servers_per_group, or neither, got {} and {}", server_groups,
        servers_per_group);
  check(server_groups <= worker_groups,
        "[topology] expected at most as many server groups as worker groups, since each worker group talks to one, got "
        "{} and {}",
        server_groups, worker_groups);
  check(size() == world, "[topology] expected {} ranks for {}, got {}", size(), describe(), world);
}

Topology::RankPosition Topology::position(int rank) const {
  check(rank >= 0 && rank < size(), "[topology] expected a rank below {}, got {}", size(), rank);
  const bool server = rank >= workers();
  const std::int64_t index = server ? rank - workers() : rank;
  const std::int64_t members = server ? servers_per_group : workers_per_group;
  return {server, static_cast<int>(index / members), static_cast<int>(index % members)};
}

int Topology::rank_of(const RankPosition& position) const {
  const std::int64_t members = position.server ? servers_per_group : workers_per_group;
  const std::int64_t groups = position.server ? server_groups : worker_groups;
  check(position.group >= 0 && position.group < groups && position.member >= 0 && position.member < members,
        "[topology] expected a member of {}, got member {} of group {}", describe(), position.member, position.group);
  return static_cast<int>((position.server ? workers() : 0) + position.group * members + position.member);
}

std::string Topology::describe() const {
  const auto part = [](std::int64_t groups, std::int64_t members, const char* what) {
    return fmt::format("{} group{} of {} {}{}", groups, groups == 1 ? "" : "s", members, what, members == 1 ? "" : "s");
  };
  const std::string text = part(worker_groups, workers_per_group, "worker");
  return servers() == 0 ? text : text + " and " + part(server_groups, servers_per_group, "server");
}

}  // namespace starling::dist
