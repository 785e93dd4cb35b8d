// Binomial trees: log2 P steps from or to a root. Chain for large broadcasts: segments follow each other from rank to
// rank, P-2+segments steps, in which every rank but the last sends n bytes once.
#include <algorithm>

#include "starling/dist/comm/algorithms/algorithms.h"
#include "starling/dist/comm/algorithms/builder.h"

namespace starling::dist {
namespace {

// Ranks relative to the root, which is 0.
struct Rooted {
  explicit Rooted(const ScheduleRequest& request)
      : size(request.size), root(request.root), own((request.rank - request.root + size) % size) {}
  int rank(int relative) const { return (relative + root) % size; }

  // Calls body(first, last) for the relative ranks [first, last), cut where absolute ranks wrap to 0, so that each
  // stretch is one block where pieces lie in rank order.
  template <class Body>
  void stretches(int first, int last, Body body) const {
    const int wrap = std::clamp(size - root, first, last);
    if (first < wrap) body(first, wrap);
    if (wrap < last) body(wrap, last);
  }

  int size, root, own;
};

// Pieces of a subtree, kept in order of relative ranks in scratch; the root has them in place.
struct Kept {
  const Rooted& rooted;
  const Cuts& cuts;
  ScheduleBuilder& b;
  ScheduleBuffer at_root;
  Block scratch;

  std::int64_t length(int first, int last) const {
    std::int64_t sum = 0;
    for (int v = first; v < last; ++v) {
      const auto r = static_cast<std::size_t>(rooted.rank(v));
      sum += cuts[r + 1] - cuts[r];
    }
    return sum;
  }
  // Block of a stretch.
  Block block(int first, int last) const {
    const std::int64_t count = length(first, last);
    if (rooted.own == 0) {
      const std::int64_t begin = cuts[static_cast<std::size_t>(rooted.rank(first))];
      return b.block(at_root, begin, begin + count);
    }
    const Block from = b.block(ScheduleBuffer::scratch, length(rooted.own, first), length(rooted.own, first) + count);
    return part(scratch, from.offset, from.bytes);
  }
};

// End of the relative ranks [own, end) in this rank's subtree.
int subtree_end(const Rooted& rooted) {
  if (rooted.own == 0) return rooted.size;
  return std::min(rooted.size, rooted.own + (rooted.own & -rooted.own));
}

Schedule gather(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Rooted rooted(request);
  const Cuts cuts = cuts_of(request);
  const int end = subtree_end(rooted);
  Kept kept{rooted, cuts, b, ScheduleBuffer::recv, {}};
  const Block own{ScheduleBuffer::send, 0, b.piece(ScheduleBuffer::recv, cuts, request.rank).bytes};
  kept.scratch = rooted.own == 0 ? Block{} : b.scratch(kept.length(rooted.own, end));
  b.copy_first(kept.block(rooted.own, rooted.own + 1), own);
  int round = 0;
  for (int mask = 1; mask < rooted.size; mask *= 2, ++round) {
    if ((rooted.own & mask) != 0) {
      rooted.stretches(rooted.own, end,
                       [&](int f, int l) { b.send(round, rooted.rank(rooted.own - mask), kept.block(f, l)); });
      break;
    }
    const int child = rooted.own + mask;
    if (child >= rooted.size) continue;
    rooted.stretches(child, std::min(child + mask, rooted.size),
                     [&](int f, int l) { b.recv(round, rooted.rank(child), kept.block(f, l)); });
  }
  b.pad(log2_ceil(rooted.size));
  return b.take();
}

Schedule scatter(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Rooted rooted(request);
  const Cuts cuts = cuts_of(request);
  const int end = subtree_end(rooted), rounds = log2_ceil(rooted.size);
  Kept kept{rooted, cuts, b, ScheduleBuffer::send, {}};
  const Block own{ScheduleBuffer::recv, 0, b.piece(ScheduleBuffer::send, cuts, request.rank).bytes};
  kept.scratch = rooted.own == 0 ? Block{} : b.scratch(kept.length(rooted.own, end));
  if (rooted.own == 0) b.copy_first(own, kept.block(0, 1));
  for (int round = 0; round < rounds; ++round) {
    const int mask = 1 << (rounds - 1 - round), child = rooted.own + mask;
    if (rooted.own % (2 * mask) == mask) {
      rooted.stretches(rooted.own, end,
                       [&](int f, int l) { b.recv(round, rooted.rank(rooted.own - mask), kept.block(f, l)); });
      b.copy(round, own, kept.block(rooted.own, rooted.own + 1));
    } else if (rooted.own % (2 * mask) == 0 && child < rooted.size) {
      rooted.stretches(child, std::min(child + mask, rooted.size),
                       [&](int f, int l) { b.send(round, rooted.rank(child), kept.block(f, l)); });
    }
  }
  b.pad(rounds);
  return b.take();
}

Schedule broadcast(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Rooted rooted(request);
  const Block whole = b.block(ScheduleBuffer::recv, 0, request.count);
  int round = 0;
  for (int mask = 1; mask < rooted.size; mask *= 2, ++round) {
    if (rooted.own < mask && rooted.own + mask < rooted.size) b.send(round, rooted.rank(rooted.own + mask), whole);
    if (rooted.own >= mask && rooted.own < 2 * mask) b.recv(round, rooted.rank(rooted.own - mask), whole);
  }
  b.pad(round);
  return b.take();
}

Schedule chain_broadcast(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Rooted rooted(request);
  if (rooted.size == 1) return b.take();
  const std::int64_t segment = std::max<std::int64_t>(1, request.segment_bytes / request.element_bytes);
  const int segments = static_cast<int>(std::max<std::int64_t>(1, (request.count + segment - 1) / segment));
  for (int s = 0; s < segments; ++s) {
    const Block block = b.block(ScheduleBuffer::recv, s * segment, std::min(request.count, (s + 1) * segment));
    if (rooted.own > 0) b.recv(rooted.own - 1 + s, rooted.rank(rooted.own - 1), block);
    if (rooted.own + 1 < rooted.size) b.send(rooted.own + s, rooted.rank(rooted.own + 1), block);
  }
  b.pad(rooted.size - 2 + segments);
  return b.take();
}

}  // namespace

Algorithm binomial_algorithm() {
  return {.name = "binomial",
          .law = "log2 P steps",
          .rank_ordered = true,
          .makers = {{CommOp::broadcast, broadcast}, {CommOp::gather, gather}, {CommOp::scatter, scatter}}};
}

Algorithm chain_algorithm() {
  return {.name = "chain",
          .law = "broadcast: P-2+segments steps, n bytes out of every rank but the last",
          .rank_ordered = true,
          .makers = {{CommOp::broadcast, chain_broadcast}}};
}

}  // namespace starling::dist
