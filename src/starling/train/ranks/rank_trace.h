#pragma once

#include <string>

#include "starling/runtime/profile/profiler.h"
#include "starling/train/ranks/link.h"

namespace starling::train {

// Collective: the recordings of all ranks (Profiler::chrome_trace) on one time line; empty on all ranks but the first.
// `began`: creation time of this rank's profiler. Ranks of one host share a clock; those of other hosts are shifted by
// their clock's offset at a barrier.
std::string trace_of_all_ranks(RankLink& link, const std::string& own, Profiler::Clock::time_point began);

}  // namespace starling::train
