#pragma once

#include "starling/dist/comm/comm.h"

namespace starling::dist {

// by_shard: ((s0 + s1) + s2) + ... over all shards in global order (ranks in order, each rank's shards in order): the
// bits depend on the shards alone, not on how many ranks hold them. by_rank_tree: each rank first adds its own, then
// ranks are added. Cheaper on a wire, but its bits change with the number of ranks.
enum class SumOrder { by_shard, by_rank_tree };

// Adds the shards of all ranks. This rank's shards lie one after another in `shards`, count elements each; ranks may
// hold different numbers of them, also none. All ranks get the same bits in result, which may be the first shard, else
// must not overlap the shards. f16 and bf16 accumulate in f32 (by_shard) and round once. Collective; blocks the calling
// thread; throws Error like Work::wait.
void ordered_sum(Comm& comm, const void* shards, std::int64_t shard_count, void* result, std::int64_t count,
                 DType dtype, SumOrder order = SumOrder::by_shard, const CallOptions& options = {});

}  // namespace starling::dist
