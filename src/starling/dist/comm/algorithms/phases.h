#pragma once

#include "starling/dist/comm/algorithms/builder.h"

namespace starling::dist {

// Building blocks of collectives among the ranks of a team: each begins at a given round and returns the round after
// its last.

// Input and result buffers of a reduction; both use the same offsets, given by cuts.
struct ReduceBuffers {
  ScheduleBuffer input = ScheduleBuffer::send;
  ScheduleBuffer result = ScheduleBuffer::recv;
  bool completes = true;  // the team is the whole world, or its last stage
};

// Ring: each rank exchanges with its neighbours only. P-1 rounds each.
int ring_reduce_scatter(ScheduleBuilder& b, int round, const Team& team, const Cuts& cuts, const ReduceBuffers& how);
int ring_all_gather(ScheduleBuilder& b, int round, const Team& team, const Cuts& cuts);

// Halving-doubling: all ranks get the reduction of elements [begin, end). Works for any number of ranks: those beyond a
// power of two fold into a neighbour first and receive the result at the end.
int halving_doubling_all_reduce(ScheduleBuilder& b, int round, const Team& team, std::int64_t begin, std::int64_t end,
                                const ReduceBuffers& how);

// Direct: all pairs of ranks exchange at once, in one round.
int direct_all_gather(ScheduleBuilder& b, int round, const Team& team, const Cuts& cuts);

}  // namespace starling::dist
