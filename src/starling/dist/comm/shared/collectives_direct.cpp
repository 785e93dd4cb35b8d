// Collectives whose buffers are all reachable: units of the exchange, run by waiting ranks.
#include "starling/dist/comm/shared/collectives.h"

namespace starling::dist {
namespace {

constexpr std::int64_t kLeastUnit = 8 << 10;  // ten times the cost of claiming it

std::uint64_t tag(std::uint64_t sequence) { return sequence << 32; }

// Increments the operation's count, starting from zero for a new operation. Returns the count before.
std::uint64_t count_one(std::atomic<std::uint64_t>& word, std::uint64_t sequence, std::uint64_t most) {
  std::uint64_t seen = word.load();
  for (;;) {
    const std::uint64_t count = (seen & ~0xffffffffull) == tag(sequence) ? seen & 0xffffffffull : 0;
    if (count >= most) return count;
    if (word.compare_exchange_weak(seen, tag(sequence) | (count + 1))) return count;
  }
}

}  // namespace

void Collectives::open_direct(Operation& op) {
  op.posts.resize(static_cast<std::size_t>(size_));
  const Fingerprint& own = block_.post(op.call.sequence, rank_).fingerprint;
  for (int r = 0; r < size_; ++r) {
    const Arrival& arrival = block_.arrival(op.call.sequence, r);
    const SharedPost& shared = block_.post(op.call.sequence, r);
    Post& post = op.posts[static_cast<std::size_t>(r)];
    post.fingerprint = own;  // equal on all ranks
    post.send = op.sources[static_cast<std::size_t>(r)].data;
    post.recv = arrival.target == BufferLocation::reachable ? world_.at(shared.recv) : nullptr;
    post.shards = arrival.shards;
    post.counts = op.counts;
  }
  if (!op.exchange) op.exchange = std::make_unique<Exchange>(size_);
  op.exchange->open(op.posts, kLeastUnit);
}

bool Collectives::run_unit(Operation& op) {
  const std::uint64_t sequence = op.call.sequence;
  const auto units = static_cast<std::uint64_t>(op.exchange->units());
  Claims& claims = block_.claims(sequence);
  bool moved = false;
  {
    const SharedWorld::Visit visit(world_);
    if (visit.refused()) return false;
    const std::uint64_t unit = count_one(claims.taken, sequence, units);
    if (unit < units) {
      {
        PieceTally tally = tally_of(op);
        op.exchange->run(static_cast<std::int64_t>(unit), tally);
      }
      moved = true;
      if (count_one(claims.done, sequence, units) + 1 == units) notify_others();
    }
  }
  if (claims.done.load(std::memory_order_acquire) == (tag(sequence) | units) || units == 0) {
    op.way = Way::over;
    return true;
  }
  return moved;
}

}  // namespace starling::dist
