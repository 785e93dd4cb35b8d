#include "starling/dist/comm/algorithms/builder.h"

#include <bit>
#include <numeric>

namespace starling::dist {

Cuts even_cuts(std::int64_t count, int pieces) {
  Cuts cuts;
  for (int k = 0; k <= pieces; ++k) cuts.push_back(count / pieces * k + count % pieces * k / pieces);
  return cuts;
}

Cuts cuts_of(const ScheduleRequest& request) {
  Cuts cuts{0};
  for (int r = 0; r < request.size; ++r) {
    const std::int64_t own = request.counts.empty() ? request.count : request.counts[static_cast<std::size_t>(r)];
    cuts.push_back(cuts.back() + own);
  }
  return cuts;
}

Team everyone(const ScheduleRequest& request) {
  Team team{std::vector<int>(static_cast<std::size_t>(request.size)), request.rank};
  std::iota(team.ranks.begin(), team.ranks.end(), 0);
  return team;
}

Round& ScheduleBuilder::round(int number) {
  pad(number + 1);
  return schedule_.rounds[static_cast<std::size_t>(number)];
}

void ScheduleBuilder::pad(int rounds) {
  if (static_cast<std::size_t>(rounds) > schedule_.rounds.size())
    schedule_.rounds.resize(static_cast<std::size_t>(rounds));
}

Block ScheduleBuilder::scratch(std::int64_t elements) {
  constexpr std::int64_t kLine = 64;  // blocks start on their own cache lines
  const Block made{ScheduleBuffer::scratch, schedule_.scratch_bytes, elements * element_};
  schedule_.scratch_bytes += (made.bytes + kLine - 1) / kLine * kLine;
  return made;
}

void ScheduleBuilder::send(int number, int peer, const Block& block) {
  Round& r = round(number);
  if (block.bytes > 0) r.transfers.push_back({true, peer, block});
}

void ScheduleBuilder::recv(int number, int peer, const Block& block) {
  Round& r = round(number);
  if (block.bytes > 0) r.transfers.push_back({false, peer, block});
}

void ScheduleBuilder::combine(int number, const Block& to, std::vector<Block> from, bool completes) {
  Round& r = round(number);
  if (to.bytes > 0) r.then.push_back({to, std::move(from), completes});
}

void ScheduleBuilder::copy_first(const Block& to, const Block& from) {
  if (to.bytes > 0) schedule_.first.push_back({to, {from}, false});
}

int log2_ceil(int n) { return static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1))); }

Traffic traffic_of(const Schedule& schedule) {
  Traffic traffic{.steps = schedule.rounds.size()};
  for (const Round& round : schedule.rounds) {
    for (const ScheduledTransfer& transfer : round.transfers) {
      const auto bytes = static_cast<std::uint64_t>(transfer.block.bytes);
      (transfer.sends ? traffic.bytes_sent : traffic.bytes_received) += bytes;
      if (transfer.sends) ++traffic.messages;
    }
  }
  return traffic;
}

}  // namespace starling::dist
