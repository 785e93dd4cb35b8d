#include "starling/dist/comm/rank_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "starling/dist/comm/journal.h"

namespace starling::dist {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Header {
  Fingerprint call;
  std::uint64_t collectives;
  std::int32_t peer;
  RankStatus::State state;
};

bool needs(const RankStatus& waiting, int other) { return waiting.peer < 0 || waiting.peer == other; }

std::string described(const RankStatus& status, int rank) {
  if (status.state == RankStatus::State::left)
    return fmt::format("rank {} has left after #{}", rank, status.collectives);
  std::string text = fmt::format("rank {} waits for {}", rank, describe(status.call));
  if (status.call.op == CommOp::send) text += fmt::format(" to rank {}", status.peer);
  return text;
}

}  // namespace

RankStatus rank_status_of(const Journal& journal, RankStatus::State state, int world) {
  RankStatus status{.state = state, .collectives = journal.last_sequence(CommOp::barrier, -1)};
  for (int peer = 0; peer < world; ++peer) {
    status.sent.push_back(journal.last_sequence(CommOp::send, peer));
    status.received.push_back(journal.last_sequence(CommOp::recv, peer));
  }
  return status;
}

bool lacks(std::span<const RankStatus> statuses, int other, int waiter) {
  const RankStatus& waiting = statuses[at(waiter)];
  const RankStatus& theirs = statuses[at(other)];
  if (other == waiter || !needs(waiting, other) || theirs.state == RankStatus::State::unknown) return false;
  switch (waiting.call.op) {
    case CommOp::send: return theirs.received[at(waiter)] < waiting.call.sequence;
    case CommOp::recv: return theirs.sent[at(waiter)] < waiting.call.sequence;
    default: return theirs.collectives < waiting.call.sequence;
  }
}

// Largest set of waiting ranks in which each lacks a rank of the set or one that has left. Computed by removing ranks
// that may still be served until nothing changes.
std::vector<int> hopeless(std::span<const RankStatus> statuses) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < statuses.size(); ++r) {
    if (statuses[r].state == RankStatus::State::waiting) ranks.push_back(static_cast<int>(r));
  }
  const auto may_be_served = [&](int waiter) {
    for (std::size_t other = 0; other < statuses.size(); ++other) {
      const int o = static_cast<int>(other);
      const bool gone = statuses[other].state == RankStatus::State::left;
      if ((gone || std::count(ranks.begin(), ranks.end(), o) > 0) && lacks(statuses, o, waiter)) return false;
    }
    return true;
  };
  for (auto served = std::find_if(ranks.begin(), ranks.end(), may_be_served); served != ranks.end();
       served = std::find_if(ranks.begin(), ranks.end(), may_be_served)) {
    ranks.erase(served);
  }
  return ranks;
}

std::string describe_hopeless(std::span<const RankStatus> statuses) {
  const std::vector<int> ranks = hopeless(statuses);
  std::vector<std::string> parts;
  for (std::size_t r = 0; r < statuses.size(); ++r) {
    const int rank = static_cast<int>(r);
    const bool gone = statuses[r].state == RankStatus::State::left;
    if (gone || std::count(ranks.begin(), ranks.end(), rank) > 0) parts.push_back(described(statuses[r], rank));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::size_t rank_status_bytes(int world) { return sizeof(Header) + 2 * at(world) * sizeof(std::uint64_t); }

void write_rank_status(const RankStatus& status, std::span<std::byte> to) {
  Header header{};
  header.call = status.call;
  header.collectives = status.collectives;
  header.peer = status.peer;
  header.state = status.state;
  std::memcpy(to.data(), &header, sizeof(header));
  const std::size_t half = status.sent.size() * sizeof(std::uint64_t);
  std::memcpy(to.data() + sizeof(header), status.sent.data(), half);
  std::memcpy(to.data() + sizeof(header) + half, status.received.data(), half);
}

RankStatus read_rank_status(std::span<const std::byte> from, int world) {
  if (from.size() != rank_status_bytes(world)) return {};
  Header header{};
  std::memcpy(&header, from.data(), sizeof(header));
  const bool sane = header.state <= RankStatus::State::left && header.peer >= -1 && header.peer < world &&
                    static_cast<int>(header.call.op) < kCommOpCount && header.call.name.back() == '\0';
  if (!sane) return {};
  RankStatus status{.state = header.state, .peer = header.peer, .call = header.call, .collectives = header.collectives};
  status.sent.resize(at(world));
  status.received.resize(at(world));
  const std::size_t half = at(world) * sizeof(std::uint64_t);
  std::memcpy(status.sent.data(), from.data() + sizeof(header), half);
  std::memcpy(status.received.data(), from.data() + sizeof(header) + half, half);
  return status;
}

}  // namespace starling::dist
