// Pairwise exchange: all_to_all in P-1 steps with one partner each. Dissemination: ranks 1, 2, 4, ... away, log2 P
// steps for any P: the barrier, and gathers of small pieces.
#include <algorithm>

#include "starling/dist/comm/algorithms/algorithms.h"
#include "starling/dist/comm/algorithms/builder.h"

namespace starling::dist {
namespace {

Schedule pairwise_all_to_all(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Cuts cuts = cuts_of(request);
  b.copy_first(b.piece(ScheduleBuffer::recv, cuts, request.rank), b.piece(ScheduleBuffer::send, cuts, request.rank));
  for (int s = 1; s < request.size; ++s) {
    const int to = (request.rank + s) % request.size, from = (request.rank + request.size - s) % request.size;
    b.send(s - 1, to, b.piece(ScheduleBuffer::send, cuts, to));
    b.recv(s - 1, from, b.piece(ScheduleBuffer::recv, cuts, from));
  }
  return b.take();
}

// Receives a byte from the ranks 1, 2, 4, ... before: no rank ends before all have begun.
Schedule barrier(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Block token = b.scratch(1);
  int round = 0;
  for (int away = 1; away < request.size; away *= 2, ++round) {
    b.send(round, (request.rank + away) % request.size, token);
    b.recv(round, (request.rank + request.size - away) % request.size, b.scratch(1));
  }
  return b.take();
}

// After each round a rank holds the pieces own, own+1, ... of twice as many ranks, in place.
Schedule all_gather(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Cuts cuts = cuts_of(request);
  const Block own = b.piece(ScheduleBuffer::recv, cuts, request.rank);
  b.copy_first(own, {ScheduleBuffer::send, 0, own.bytes});
  const auto stretches = [&](int first, int pieces, auto body) {
    const int straight = std::min(pieces, request.size - first);
    const auto at = [&](int k) { return cuts[static_cast<std::size_t>(k)]; };
    body(b.block(ScheduleBuffer::recv, at(first), at(first + straight)));
    if (straight < pieces) body(b.block(ScheduleBuffer::recv, 0, at(pieces - straight)));
  };
  int round = 0;
  for (int have = 1; have < request.size; have *= 2, ++round) {
    const int more = std::min(have, request.size - have);
    const int to = (request.rank + request.size - have) % request.size, from = (request.rank + have) % request.size;
    stretches(request.rank, more, [&](const Block& block) { b.send(round, to, block); });
    stretches(from, more, [&](const Block& block) { b.recv(round, from, block); });
  }
  return b.take();
}

}  // namespace

Algorithm pairwise_algorithm() {
  return {.name = "pairwise",
          .law = "all_to_all: P-1 steps, one piece each",
          .rank_ordered = true,
          .makers = {{CommOp::all_to_all, pairwise_all_to_all}}};
}

Algorithm dissemination_algorithm() {
  return {.name = "dissemination",
          .law = "log2 P steps, rounded up; all_gather: (P-1)/P n bytes a rank",
          .rank_ordered = true,
          .makers = {{CommOp::barrier, barrier}, {CommOp::all_gather, all_gather}}};
}

}  // namespace starling::dist
