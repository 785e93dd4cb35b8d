#include "starling/dist/comm/standing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "starling/dist/comm/journal.h"

namespace starling {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Header {
  Fingerprint call;
  std::uint64_t collectives;
  std::int32_t peer;
  Standing::State state;
};

bool needs(const Standing& waiting, int other) { return waiting.peer < 0 || waiting.peer == other; }

std::string described(const Standing& standing, int rank) {
  if (standing.state == Standing::State::left)
    return fmt::format("rank {} has left after #{}", rank, standing.collectives);
  std::string text = fmt::format("rank {} waits for {}", rank, describe(standing.call));
  if (standing.call.op == CommOp::send) text += fmt::format(" to rank {}", standing.peer);
  return text;
}

}  // namespace

Standing standing_of(const Journal& journal, Standing::State state, int world) {
  Standing standing{.state = state, .collectives = journal.last_sequence(CommOp::barrier, -1)};
  for (int peer = 0; peer < world; ++peer) {
    standing.sent.push_back(journal.last_sequence(CommOp::send, peer));
    standing.received.push_back(journal.last_sequence(CommOp::recv, peer));
  }
  return standing;
}

bool lacks(std::span<const Standing> standings, int other, int waiter) {
  const Standing& waiting = standings[at(waiter)];
  const Standing& theirs = standings[at(other)];
  if (other == waiter || !needs(waiting, other) || theirs.state == Standing::State::unknown) return false;
  switch (waiting.call.op) {
    case CommOp::send: return theirs.received[at(waiter)] < waiting.call.sequence;
    case CommOp::recv: return theirs.sent[at(waiter)] < waiting.call.sequence;
    default: return theirs.collectives < waiting.call.sequence;
  }
}

// Largest set of waiting ranks in which each lacks a rank of the set or one that has left. Computed by removing ranks
// that may still be served until nothing changes.
std::vector<int> hopeless(std::span<const Standing> standings) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < standings.size(); ++r) {
    if (standings[r].state == Standing::State::waiting) ranks.push_back(static_cast<int>(r));
  }
  const auto may_be_served = [&](int waiter) {
    for (std::size_t other = 0; other < standings.size(); ++other) {
      const int o = static_cast<int>(other);
      const bool gone = standings[other].state == Standing::State::left;
      if ((gone || std::count(ranks.begin(), ranks.end(), o) > 0) && lacks(standings, o, waiter)) return false;
    }
    return true;
  };
  for (auto served = std::find_if(ranks.begin(), ranks.end(), may_be_served); served != ranks.end();
       served = std::find_if(ranks.begin(), ranks.end(), may_be_served)) {
    ranks.erase(served);
  }
  return ranks;
}

std::string describe_hopeless(std::span<const Standing> standings) {
  const std::vector<int> ranks = hopeless(standings);
  std::vector<std::string> parts;
  for (std::size_t r = 0; r < standings.size(); ++r) {
    const int rank = static_cast<int>(r);
    const bool gone = standings[r].state == Standing::State::left;
    if (gone || std::count(ranks.begin(), ranks.end(), rank) > 0) parts.push_back(described(standings[r], rank));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::size_t standing_bytes(int world) { return sizeof(Header) + 2 * at(world) * sizeof(std::uint64_t); }

void write_standing(const Standing& standing, std::span<std::byte> to) {
  Header header{};
  header.call = standing.call;
  header.collectives = standing.collectives;
  header.peer = standing.peer;
  header.state = standing.state;
  std::memcpy(to.data(), &header, sizeof(header));
  const std::size_t half = standing.sent.size() * sizeof(std::uint64_t);
  std::memcpy(to.data() + sizeof(header), standing.sent.data(), half);
  std::memcpy(to.data() + sizeof(header) + half, standing.received.data(), half);
}

Standing read_standing(std::span<const std::byte> from, int world) {
  if (from.size() != standing_bytes(world)) return {};
  Header header{};
  std::memcpy(&header, from.data(), sizeof(header));
  const bool sane = header.state <= Standing::State::left && header.peer >= -1 && header.peer < world &&
                    static_cast<int>(header.call.op) < kCommOpCount && header.call.name.back() == '\0';
  if (!sane) return {};
  Standing standing{.state = header.state, .peer = header.peer, .call = header.call, .collectives = header.collectives};
  standing.sent.resize(at(world));
  standing.received.resize(at(world));
  const std::size_t half = at(world) * sizeof(std::uint64_t);
  std::memcpy(standing.sent.data(), from.data() + sizeof(header), half);
  std::memcpy(standing.received.data(), from.data() + sizeof(header) + half, half);
  return standing;
}

}  // namespace starling
