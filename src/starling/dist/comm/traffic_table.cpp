#include "starling/dist/comm/traffic_table.h"

#include <vector>

namespace starling::dist {
namespace {

std::uint64_t* zeros_for(int world) {
  thread_local std::vector<std::uint64_t> sums;
  sums.assign(2 * static_cast<std::size_t>(world), 0);
  return sums.data();
}

}  // namespace

PieceTally::PieceTally(const TrafficTable& table, int mover, CommOp op)
    : table_(table), mover_(mover), op_(op), sums_(zeros_for(table.world())) {}

PieceTally::~PieceTally() {
  for (int rank = 0; rank < table_.world(); ++rank) {
    const std::uint64_t sent = sums_[2 * rank], received = sums_[2 * rank + 1];
    if (sent > 0 || received > 0) table_.add(mover_, op_, rank, sent, received);
  }
}

}  // namespace starling::dist
