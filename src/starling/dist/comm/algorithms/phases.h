#pragma once

#include "starling/dist/comm/algorithms/builder.h"

namespace starling {

// Parts of collectives among the ranks of a team, to be put together: each begins at a round and returns the round
// after its last.

// Where a reduction reads and where its result goes: bytes of both lie at the same places, given by cuts.
struct Reduction {
  ScheduleBuffer input = ScheduleBuffer::send;
  ScheduleBuffer result = ScheduleBuffer::recv;
  bool completes = true;  // the team is the whole world, or the last stage of it
};

// Ring: each rank speaks with its neighbours only. P-1 rounds each.
int ring_reduce_scatter(ScheduleBuilder& b, int round, const Team& team, const Cuts& cuts, const Reduction& how);
int ring_all_gather(ScheduleBuilder& b, int round, const Team& team, const Cuts& cuts);

// Halving-doubling: result holds the reduction of [cuts.front(), cuts.back()) on all. Works for any number of ranks:
// those beyond a power of two fold into a neighbour first and are told in the end.
int halving_doubling_all_reduce(ScheduleBuilder& b, int round, const Team& team, std::int64_t begin, std::int64_t end,
                                const Reduction& how);

// Direct: everyone with everyone at once, one round each.
int direct_all_gather(ScheduleBuilder& b, int round, const Team& team, const Cuts& cuts);

}  // namespace starling
