#include "starling/dist/comm/traffic_table.h"

#include <bit>
#include <vector>

namespace starling::dist {
namespace {

PieceTally::Sum* zeros_for(int world) {
  thread_local std::vector<PieceTally::Sum> sums;
  sums.assign(static_cast<std::size_t>(world), {});
  return sums.data();
}

// Sets bits and counts those that were not set before. Mostly all were: then nothing is written.
std::uint64_t newly_set(PhaseBits& bits, std::uint32_t more) {
  if ((bits.load(std::memory_order_relaxed) & more) == more) return 0;
  return static_cast<std::uint64_t>(std::popcount(more & ~bits.fetch_or(more, std::memory_order_relaxed)));
}

}  // namespace

PieceTally::PieceTally(const TrafficTable& table, int mover, CommOp op, PhaseBits* phases)
    : table_(table), mover_(mover), op_(op), phases_(phases), sums_(zeros_for(table.world())) {}

PieceTally::~PieceTally() {
  for (int rank = 0; rank < table_.world(); ++rank) {
    const Sum& sum = sums_[rank];
    if (sum.phases == 0) continue;
    table_.add(mover_, op_, rank,
               {.bytes_sent = sum.bytes_sent,
                .bytes_received = sum.bytes_received,
                .steps = newly_set(phases_[rank], sum.phases),
                .messages = sum.messages});
  }
}

}  // namespace starling::dist
