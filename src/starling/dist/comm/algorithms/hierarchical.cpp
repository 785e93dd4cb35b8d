// Hierarchical all-reduce: shards are reduced inside each host, each shard is all-reduced by its owners of all hosts,
// and gathered inside. Between H hosts of L ranks each a rank sends 2(H-1)/H n/L bytes (H a power of two). Hosts may
// hold different numbers of ranks: there are as many shards as the smallest has ranks.
#include <algorithm>
#include <map>

#include "starling/dist/comm/algorithms/algorithms.h"
#include "starling/dist/comm/algorithms/phases.h"

namespace starling::dist {
namespace {

struct Hosts {
  std::vector<std::vector<int>> ranks;  // by host, in rank order
  int own = 0;                          // host of the rank
  int shards = 0;
};

Hosts hosts_of(const ScheduleRequest& request) {
  std::map<int, std::vector<int>> by_host;
  for (int r = 0; r < request.size; ++r) by_host[request.hosts[static_cast<std::size_t>(r)]].push_back(r);
  Hosts hosts;
  std::size_t fewest = static_cast<std::size_t>(request.size);
  for (const auto& [host, ranks] : by_host) {
    if (host == request.hosts[static_cast<std::size_t>(request.rank)]) hosts.own = static_cast<int>(hosts.ranks.size());
    fewest = std::min(fewest, ranks.size());
    hosts.ranks.push_back(ranks);
  }
  hosts.shards = static_cast<int>(fewest);
  return hosts;
}

// Shards are sent to their owners, which reduce the values of the whole host.
void reduce_inside(ScheduleBuilder& b, const Team& team, const Cuts& shards, int count, bool completes) {
  std::vector<Block> sources;
  b.pad(1);
  for (int i = 0; i < team.size(); ++i) {
    if (i < count && i != team.index) b.send(0, team[i], b.piece(ScheduleBuffer::send, shards, i));
    if (team.index >= count) continue;
    const auto k = static_cast<std::size_t>(team.index);
    sources.push_back(i == team.index ? b.piece(ScheduleBuffer::send, shards, i)
                                      : b.scratch(shards[k + 1] - shards[k]));
    if (i != team.index) b.recv(0, team[i], sources.back());
  }
  if (team.index < count)
    b.combine(0, b.piece(ScheduleBuffer::recv, shards, team.index), std::move(sources), completes);
}

void gather_inside(ScheduleBuilder& b, int round, const Team& team, const Cuts& shards, int count) {
  b.pad(round + 1);
  for (int i = 0; i < team.size(); ++i) {
    if (i == team.index) continue;
    if (team.index < count) b.send(round, team[i], b.piece(ScheduleBuffer::recv, shards, team.index));
    if (i < count) b.recv(round, team[i], b.piece(ScheduleBuffer::recv, shards, i));
  }
}

Schedule all_reduce(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Hosts hosts = hosts_of(request);
  Team inside{hosts.ranks[static_cast<std::size_t>(hosts.own)], 0};
  inside.index =
      static_cast<int>(std::find(inside.ranks.begin(), inside.ranks.end(), request.rank) - inside.ranks.begin());
  const Cuts shards = even_cuts(request.count, hosts.shards);
  const bool one_host = hosts.ranks.size() == 1;
  reduce_inside(b, inside, shards, hosts.shards, one_host);
  // All ranks need as many rounds as the owners of a shard.
  const int owned = std::min(inside.index, hosts.shards - 1);
  Team across{{}, hosts.own};
  for (const auto& ranks : hosts.ranks) across.ranks.push_back(ranks[static_cast<std::size_t>(owned)]);
  ScheduleBuilder idle(request);
  const bool owner = inside.index < hosts.shards;
  const auto k = static_cast<std::size_t>(owned);
  const int round = halving_doubling_all_reduce(owner ? b : idle, 1, across, shards[k], shards[k + 1],
                                                {.input = ScheduleBuffer::recv, .result = ScheduleBuffer::recv});
  gather_inside(b, round, inside, shards, hosts.shards);
  return b.take();
}

}  // namespace

Algorithm hierarchical_algorithm() {
  return {.name = "hierarchical",
          .law = "all_reduce: 2 steps inside a host, between H hosts of L ranks 2(H-1)/H n/L bytes a rank",
          .makers = {{CommOp::all_reduce, all_reduce}},
          .needs_hosts = true};
}

}  // namespace starling::dist
