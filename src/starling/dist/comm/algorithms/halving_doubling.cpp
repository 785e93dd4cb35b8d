// Halving-doubling (Rabenseifner): halves of the buffer are exchanged with ranks P/2, P/4, ... 1 away, then gathered on
// the way back. For P a power of two 2·log2 P steps and 2(P-1)/P n bytes a rank; else two steps more, in which the
// ranks beyond the power of two fold into a neighbour and receive the result.
#include "starling/dist/comm/algorithms/algorithms.h"
#include "starling/dist/comm/algorithms/fold.h"
#include "starling/dist/comm/algorithms/phases.h"

namespace starling::dist {
namespace {

// Recursive halving and doubling over the cores' pieces [first, last).
struct Halving {
  ScheduleBuilder& b;
  const Team& team;
  const Fold& fold;
  const Cuts& cuts;  // one piece per core
  int core;
  bool completes;

  Block blocks(const Block& base, int first, int last) const {
    const Block relative = b.block(base.buffer, cuts[static_cast<std::size_t>(first)] - cuts.front(),
                                   cuts[static_cast<std::size_t>(last)] - cuts.front());
    return part(base, relative.offset, relative.bytes);
  }
  int partner(int mask) const { return team[fold.index_of(core ^ mask)]; }

  // Reduces the core's own piece completely into `work`. The first exchange reads `from`, later ones read `work`.
  int reduce(int round, Block from, const Block& work, const Block& landing) const {
    int first = 0, last = fold.cores;
    for (int mask = fold.cores / 2; mask >= 1; mask /= 2, ++round) {
      const int middle = (first + last) / 2;
      const bool upper = (core & mask) != 0;
      const int keep_first = upper ? middle : first, keep_last = upper ? last : middle;
      const Block own = blocks(from, keep_first, keep_last), received = part(landing, 0, own.bytes);
      b.send(round, partner(mask), upper ? blocks(from, first, middle) : blocks(from, middle, last));
      b.recv(round, partner(mask), received);
      b.combine(round, blocks(work, keep_first, keep_last),
                upper ? std::vector<Block>{received, own} : std::vector<Block>{own, received}, completes && mask == 1);
      first = keep_first, last = keep_last, from = work;
    }
    return round;
  }

  int gather(int round, const Block& work) const {
    for (int mask = 1; mask < fold.cores; mask *= 2, ++round) {
      const int first = core / mask * mask, theirs = first ^ mask;
      b.send(round, partner(mask), blocks(work, first, first + mask));
      b.recv(round, partner(mask), blocks(work, theirs, theirs + mask));
    }
    return round;
  }
};

Schedule all_reduce(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  halving_doubling_all_reduce(b, 0, everyone(request), 0, request.count, {});
  return b.take();
}

// Each core reduces the pieces of the ranks it stands for, in scratch, since send must not be modified.
Schedule reduce_scatter(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Team team = everyone(request);
  const Fold fold(request.size);
  const Cuts pieces = cuts_of(request);
  Cuts cuts;
  for (int core = 0; core < fold.cores; ++core) cuts.push_back(pieces[static_cast<std::size_t>(fold.index_of(core))]);
  cuts.push_back(pieces.back());
  const std::int64_t count = pieces.back();
  const int unfold = fold.extras > 0 ? 2 : 0, rounds = log2_ceil(fold.cores) + unfold;
  const int core = fold.core_of(request.rank);
  const Block whole = b.block(ScheduleBuffer::send, 0, count);
  const Block result{ScheduleBuffer::recv, 0, b.piece(ScheduleBuffer::send, pieces, request.rank).bytes};
  if (core < 0) {
    b.send(0, request.rank - 1, whole);
    b.recv(rounds - 1, request.rank - 1, result);
    b.pad(rounds);
    return b.take();
  }
  const Block work = b.scratch(count), landing = b.scratch(count);
  Block from = whole;
  if (fold.has_extra(core)) {
    b.recv(0, request.rank + 1, landing);
    b.combine(0, work, {whole, landing}, false);
    from = work;
  }
  const Halving halving{b, team, fold, cuts, core, true};
  const int round = halving.reduce(fold.extras > 0 ? 1 : 0, from, work, landing);
  const Block own = b.piece(ScheduleBuffer::scratch, pieces, request.rank);
  if (request.size > 1) b.copy(round - 1, result, part(work, own.offset, own.bytes));
  if (fold.has_extra(core)) {
    const Block extra = b.piece(ScheduleBuffer::scratch, pieces, request.rank + 1);
    b.send(round, request.rank + 1, part(work, extra.offset, extra.bytes));
  }
  b.pad(rounds);
  return b.take();
}

}  // namespace

int halving_doubling_all_reduce(ScheduleBuilder& b, int round, const Team& team, std::int64_t begin, std::int64_t end,
                                const ReduceBuffers& how) {
  if (team.size() == 1) return round;
  const Fold fold(team.size());
  const int core = fold.core_of(team.index);
  const int after = round + 2 * log2_ceil(fold.cores) + (fold.extras > 0 ? 2 : 0);
  const Block input = b.block(how.input, begin, end), result = b.block(how.result, begin, end);
  b.pad(after);
  if (core < 0) {
    b.send(round, team[team.index - 1], input);
    b.recv(after - 1, team[team.index - 1], result);
    return after;
  }
  const bool whole = fold.has_extra(core);
  const Block landing = b.scratch(whole ? end - begin : (end - begin + 1) / 2 + 1);
  if (whole) {
    b.recv(round, team[team.index + 1], landing);
    b.combine(round, result, {input, landing}, false);
  }
  if (fold.extras > 0) ++round;
  Cuts cuts = even_cuts(end - begin, fold.cores);
  const Halving halving{b, team, fold, cuts, core, how.completes};
  round = halving.reduce(round, whole ? result : input, result, landing);
  round = halving.gather(round, result);
  if (whole) b.send(round, team[team.index + 1], result);
  return after;
}

Algorithm halving_doubling_algorithm() {
  return {.name = "halving_doubling",
          .law = "all_reduce: 2 log2 P steps, 2(P-1)/P n bytes a rank for P a power of two; else 2 steps more",
          .makers = {{CommOp::all_reduce, all_reduce}, {CommOp::reduce_scatter, reduce_scatter}}};
}

}  // namespace starling::dist
