#include "starling/dist/comm/transport/hello.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/dist/comm/transport/progress_engine.h"

namespace starling::dist {
namespace {

constexpr std::uint64_t kVersion = 1;
constexpr std::chrono::minutes kMeeting{1};

struct Hello {
  std::uint64_t version = kVersion;
  std::uint64_t world = 0;
  std::uint64_t epoch = 0;
  std::uint64_t options = 0;  // hash of the options
  MeasuredLinks measured;
};

std::uint64_t hash_of(const TransportCommOptions& options) {
  std::uint64_t hash = 14695981039346656037ull;
  const auto mix = [&](std::string_view bytes) {
    for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    hash = hash * 1099511628211ull + 1;
  };
  const auto mix_number = [&](auto value) { mix({reinterpret_cast<const char*>(&value), sizeof(value)}); };
  for (const auto& costs : {options.far, options.near}) {
    mix_number(costs.has_value());
    if (!costs) continue;
    for (double cost : {costs->latency, costs->overhead, costs->per_byte, costs->reduce_byte}) mix_number(cost);
  }
  for (int host : options.hosts) mix_number(host);
  mix_number(options.chain);
  mix_number(options.rank_ordered);
  for (const auto& [op, name] : options.forced) {
    mix_number(op);
    mix(name);
  }
  return hash;
}

void compare(const Hello& own, const Hello& theirs, int peer, const Transport& transport) {
  const auto differs = [&](std::string_view what, std::uint64_t here, std::uint64_t there) {
    if (here == there) return;
    fail("[comm] expected rank {} to have the same {} as rank {}, got {} and {}", peer, what, transport.rank(), there,
         here);
  };
  differs("version of the transport protocol", own.version, theirs.version);
  differs("world size", own.world, theirs.world);
  differs("epoch", own.epoch, theirs.epoch);
  differs("options (hash)", own.options, theirs.options);
}

// Mean over the ranks that have measured, added in rank order: bitwise equal on all ranks.
LinkCosts mean_of(const std::vector<Hello>& all, LinkCosts MeasuredLinks::*which) {
  LinkCosts sum{0, 0, 0, 0};
  double measured = 0;
  for (const Hello& hello : all) {
    const LinkCosts& costs = hello.measured.*which;
    sum.reduce_byte += costs.reduce_byte / static_cast<double>(all.size());
    if (costs.latency <= 0) continue;
    measured += 1;
    sum.latency += costs.latency;
    sum.overhead += costs.overhead;
    sum.per_byte += costs.per_byte;
  }
  if (measured == 0) return {.reduce_byte = sum.reduce_byte};
  return {sum.latency / measured, sum.overhead / measured, sum.per_byte / measured, sum.reduce_byte};
}

}  // namespace

ChoiceRules agree_on_rules(Transport& transport, const CommGroup& group, const TransportCommOptions& options) {
  ChoiceRules rules{options.far.value_or(LinkCosts{}),
                    options.near.value_or(LinkCosts{}),
                    options.hosts,
                    options.chain,
                    options.rank_ordered,
                    options.forced};
  check(options.hosts.empty() || options.hosts.size() == static_cast<std::size_t>(group.size),
        "[comm] expected the host of each of {} ranks, got {}", group.size, options.hosts.size());
  for (const auto& [op, name] : options.forced) (void)algorithm_named(name, op);
  if (group.size == 1) return rules;
  const CommTime deadline = CommClock::now() + std::min<std::chrono::milliseconds>(group.deadline, kMeeting);
  const bool measures = !options.far || (!options.near && !options.hosts.empty());
  std::vector<Hello> all(static_cast<std::size_t>(group.size));
  Hello own;
  own.world = static_cast<std::uint64_t>(group.size);
  own.epoch = group.epoch;
  own.options = hash_of(options);
  const auto tell_all = [&] {
    std::vector<Transport::Transfer> transfers;
    for (int r = 0; r < group.size; ++r) {
      if (r == group.rank) continue;
      transfers.push_back(transport.recv(r, kHelloChannel, &all[static_cast<std::size_t>(r)], sizeof(Hello)));
      transfers.push_back(transport.send(r, kHelloChannel, &own, sizeof(Hello)));
    }
    finish(transport, std::move(transfers), "meeting", deadline);
    all[static_cast<std::size_t>(group.rank)] = own;
  };
  tell_all();
  for (int r = 0; r < group.size; ++r) compare(own, all[static_cast<std::size_t>(r)], r, transport);
  if (!measures) return rules;
  own.measured = measure_links(transport, options.hosts, deadline);
  tell_all();
  if (!options.far) rules.far = mean_of(all, &MeasuredLinks::far);
  if (!options.near) rules.near = mean_of(all, &MeasuredLinks::near);
  return rules;
}

}  // namespace starling::dist
