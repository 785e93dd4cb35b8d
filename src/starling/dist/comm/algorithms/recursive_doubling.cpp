// Recursive doubling: whole buffers are exchanged with ranks 1, 2, 4, ... away. All-reduce: log2 P steps, n log2 P
// bytes for P a power of two, else two steps more; few steps, so for small buffers.
#include "starling/dist/comm/algorithms/algorithms.h"
#include "starling/dist/comm/algorithms/builder.h"
#include "starling/dist/comm/algorithms/fold.h"

namespace starling::dist {
namespace {

Schedule all_reduce(const ScheduleRequest& request) {
  ScheduleBuilder b(request);
  const Fold fold(request.size);
  const int core = fold.core_of(request.rank);
  const int rounds = log2_ceil(fold.cores) + (fold.extras > 0 ? 2 : 0);
  const Block result = b.block(ScheduleBuffer::recv, 0, request.count);
  Block from = b.block(ScheduleBuffer::send, 0, request.count);
  b.pad(rounds);
  if (core < 0) {
    b.send(0, request.rank - 1, from);
    b.recv(rounds - 1, request.rank - 1, result);
    return b.take();
  }
  const Block landing = b.scratch(request.count);
  int round = 0;
  if (fold.has_extra(core)) {
    b.recv(0, request.rank + 1, landing);
    b.combine(0, result, {from, landing}, false);
    from = result;
  }
  if (fold.extras > 0) ++round;
  for (int mask = 1; mask < fold.cores; mask *= 2, ++round) {
    const int partner = fold.index_of(core ^ mask);
    b.send(round, partner, from);
    b.recv(round, partner, landing);
    // Lower ranks first on both sides: equal bits on all ranks.
    b.combine(round, result, (core & mask) != 0 ? std::vector<Block>{landing, from} : std::vector<Block>{from, landing},
              mask * 2 == fold.cores);
    from = result;
  }
  if (fold.has_extra(core)) b.send(round, request.rank + 1, result);
  return b.take();
}

}  // namespace

Algorithm recursive_doubling_algorithm() {
  return {.name = "recursive_doubling",
          .law = "all_reduce: log2 P steps, n log2 P bytes a rank for P a power of two; else 2 steps more",
          .makers = {{CommOp::all_reduce, all_reduce}}};
}

}  // namespace starling::dist
