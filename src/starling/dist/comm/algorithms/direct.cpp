// Direct: all pairs of ranks exchange at once. As many bytes as the ring in 1 or 2 steps, P-1 messages each. The owner
// of a piece has all ranks' values of it before it reduces: in rank order, rounding once.
#include "starling/dist/comm/algorithms/algorithms.h"
#include "starling/dist/comm/algorithms/phases.h"

namespace starling::dist {
namespace {

// Reduces this rank's piece of all send buffers into result.
void reduce_piece(ScheduleBuilder& b, const ScheduleRequest& request, const Cuts& cuts, const Block& result) {
  const Block own = b.piece(ScheduleBuffer::send, cuts, request.rank);
  const std::int64_t count =
      cuts[static_cast<std::size_t>(request.rank) + 1] - cuts[static_cast<std::size_t>(request.rank)];
  std::vector<Block> sources(static_cast<std::size_t>(request.size), own);
  for (int s = 1; s < request.size; ++s) {  // staggered, so that no rank is everyone's first target
    const int to = (request.rank + s) % request.size, from = (request.rank + request.size - s) % request.size;
    sources[static_cast<std::size_t>(from)] = b.scratch(count);
    b.send(0, to, b.piece(ScheduleBuffer::send, cuts, to));
    b.recv(0, from, sources[static_cast<std::size_t>(from)]);
  }
  b.combine(0, result, std::move(sources), true);
}

Schedule all_reduce(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Cuts cuts = even_cuts(request.count, request.size);
  reduce_piece(b, request, cuts, b.piece(ScheduleBuffer::recv, cuts, request.rank));
  direct_all_gather(b, 1, everyone(request), cuts);
  return b.take();
}

Schedule reduce_scatter(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Cuts cuts = cuts_of(request);
  reduce_piece(b, request, cuts, {ScheduleBuffer::recv, 0, b.piece(ScheduleBuffer::send, cuts, request.rank).bytes});
  return b.take();
}

Schedule all_gather(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Cuts cuts = cuts_of(request);
  const Block own = b.piece(ScheduleBuffer::recv, cuts, request.rank);
  b.copy_first(own, {ScheduleBuffer::send, 0, own.bytes});
  direct_all_gather(b, 0, everyone(request), cuts);
  return b.take();
}

Schedule gather(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Cuts cuts = cuts_of(request);
  const Block own = b.piece(ScheduleBuffer::recv, cuts, request.rank), mine{ScheduleBuffer::send, 0, own.bytes};
  b.pad(1);
  if (request.rank != request.root) {
    b.send(0, request.root, mine);
    return b.take();
  }
  b.copy_first(own, mine);
  for (int r = 0; r < request.size; ++r)
    if (r != request.root) b.recv(0, r, b.piece(ScheduleBuffer::recv, cuts, r));
  return b.take();
}

Schedule scatter(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Cuts cuts = cuts_of(request);
  const Block own = b.piece(ScheduleBuffer::send, cuts, request.rank), mine{ScheduleBuffer::recv, 0, own.bytes};
  b.pad(1);
  if (request.rank != request.root) {
    b.recv(0, request.root, mine);
    return b.take();
  }
  b.copy_first(mine, own);
  for (int r = 0; r < request.size; ++r)
    if (r != request.root) b.send(0, r, b.piece(ScheduleBuffer::send, cuts, r));
  return b.take();
}

Schedule all_to_all(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Cuts cuts = cuts_of(request);
  b.copy_first(b.piece(ScheduleBuffer::recv, cuts, request.rank), b.piece(ScheduleBuffer::send, cuts, request.rank));
  b.pad(1);
  for (int s = 1; s < request.size; ++s) {
    const int to = (request.rank + s) % request.size, from = (request.rank + request.size - s) % request.size;
    b.send(0, to, b.piece(ScheduleBuffer::send, cuts, to));
    b.recv(0, from, b.piece(ScheduleBuffer::recv, cuts, from));
  }
  return b.take();
}

// Every rank receives all buffers and reduces them itself.
Schedule one_shot_all_reduce(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Block own = b.block(ScheduleBuffer::send, 0, request.count);
  std::vector<Block> sources(static_cast<std::size_t>(request.size), own);
  for (int s = 1; s < request.size; ++s) {
    const int to = (request.rank + s) % request.size, from = (request.rank + request.size - s) % request.size;
    sources[static_cast<std::size_t>(from)] = b.scratch(request.count);
    b.send(0, to, own);
    b.recv(0, from, sources[static_cast<std::size_t>(from)]);
  }
  b.combine(0, b.block(ScheduleBuffer::recv, 0, request.count), std::move(sources), true);
  return b.take();
}

}  // namespace

int direct_all_gather(ScheduleBuilder& b, int round, const Team& team, const Cuts& cuts) {
  b.pad(round + 1);
  for (int s = 1; s < team.size(); ++s) {
    const int to = (team.index + s) % team.size(), from = (team.index + team.size() - s) % team.size();
    b.send(round, team[to], b.piece(ScheduleBuffer::recv, cuts, team.index));
    b.recv(round, team[from], b.piece(ScheduleBuffer::recv, cuts, from));
  }
  return round + 1;
}

Algorithm direct_algorithm() {
  return {.name = "direct",
          .law = "all_reduce: 2 steps of P-1 messages, 2(P-1)/P n bytes a rank; others: 1 step",
          .rank_ordered = true,
          .makers = {{CommOp::all_reduce, all_reduce},
                     {CommOp::reduce_scatter, reduce_scatter},
                     {CommOp::all_gather, all_gather},
                     {CommOp::gather, gather},
                     {CommOp::scatter, scatter},
                     {CommOp::all_to_all, all_to_all}}};
}

Algorithm one_shot_algorithm() {
  return {.name = "one_shot",
          .law = "all_reduce: 1 step of P-1 messages, (P-1) n bytes a rank",
          .rank_ordered = true,
          .makers = {{CommOp::all_reduce, one_shot_all_reduce}}};
}

}  // namespace starling::dist
