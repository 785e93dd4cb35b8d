// Ring: every rank sends to the next and receives from the one before. All-reduce: 2(P-1) steps, 2(P-1)/P n bytes a
// rank; scatter and gather alone: half of each. Piece k is reduced along k+1, k+2, ... k.
#include <algorithm>

#include "starling/dist/comm/algorithms/algorithms.h"
#include "starling/dist/comm/algorithms/phases.h"

namespace starling::dist {
namespace {

struct Neighbours {
  explicit Neighbours(const Team& team)
      : size(team.size()), next(team[(team.index + 1) % size]), before(team[(team.index + size - 1) % size]) {}
  int size, next, before;
};

std::int64_t longest(const Cuts& cuts) {
  std::int64_t most = 0;
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) most = std::max(most, cuts[k + 1] - cuts[k]);
  return most;
}

Schedule all_reduce(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Team team = everyone(request);
  const Cuts cuts = even_cuts(request.count, request.size);
  const int round = ring_reduce_scatter(b, 0, team, cuts, {});
  ring_all_gather(b, round, team, cuts);
  return b.take();
}

// Partial results alternate between two scratch blocks, since send must not be modified.
Schedule reduce_scatter(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Team team = everyone(request);
  const Neighbours ring(team);
  const Cuts cuts = cuts_of(request);
  const Block turns[2] = {b.scratch(longest(cuts)), b.scratch(longest(cuts))};
  const Block result{ScheduleBuffer::recv, 0, b.piece(ScheduleBuffer::send, cuts, request.rank).bytes};
  for (int s = 0; s + 1 < ring.size; ++s) {
    const int out = (team.index - s - 1 + ring.size) % ring.size, in = (team.index - s - 2 + 2 * ring.size) % ring.size;
    const Block outgoing = b.piece(ScheduleBuffer::send, cuts, out), own = b.piece(ScheduleBuffer::send, cuts, in);
    const Block landing = part(turns[s % 2], 0, own.bytes);
    const bool last = s + 2 == ring.size;
    b.send(s, ring.next, s == 0 ? outgoing : part(turns[(s + 1) % 2], 0, outgoing.bytes));
    b.recv(s, ring.before, landing);
    b.combine(s, last ? result : landing, {landing, own}, last);
  }
  return b.take();
}

Schedule all_gather(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Cuts cuts = cuts_of(request);
  const Block own = b.piece(ScheduleBuffer::recv, cuts, request.rank);
  b.copy_first(own, {ScheduleBuffer::send, 0, own.bytes});
  ring_all_gather(b, 0, everyone(request), cuts);
  return b.take();
}

}  // namespace

int ring_reduce_scatter(ScheduleBuilder& b, int round, const Team& team, const Cuts& cuts, const ReduceBuffers& how) {
  const Neighbours ring(team);
  if (ring.size == 1) return round;
  const Block landing = b.scratch(longest(cuts));
  for (int s = 0; s + 1 < ring.size; ++s) {
    const int out = (team.index - s - 1 + ring.size) % ring.size, in = (team.index - s - 2 + 2 * ring.size) % ring.size;
    const Block own = b.piece(how.input, cuts, in), received = part(landing, 0, own.bytes);
    b.send(round + s, ring.next, b.piece(s == 0 ? how.input : how.result, cuts, out));
    b.recv(round + s, ring.before, received);
    b.combine(round + s, b.piece(how.result, cuts, in), {received, own}, how.completes && s + 2 == ring.size);
  }
  return round + ring.size - 1;
}

int ring_all_gather(ScheduleBuilder& b, int round, const Team& team, const Cuts& cuts) {
  const Neighbours ring(team);
  for (int s = 0; s + 1 < ring.size; ++s) {
    const int out = (team.index - s + ring.size) % ring.size, in = (team.index - s - 1 + ring.size) % ring.size;
    b.send(round + s, ring.next, b.piece(ScheduleBuffer::recv, cuts, out));
    b.recv(round + s, ring.before, b.piece(ScheduleBuffer::recv, cuts, in));
  }
  return round + ring.size - 1;
}

Algorithm ring_algorithm() {
  return {.name = "ring",
          .law = "all_reduce: 2(P-1) steps, 2(P-1)/P n bytes a rank",
          .makers = {{CommOp::all_reduce, all_reduce},
                     {CommOp::reduce_scatter, reduce_scatter},
                     {CommOp::all_gather, all_gather}}};
}

}  // namespace starling::dist
