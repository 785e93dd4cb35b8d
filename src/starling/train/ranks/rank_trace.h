#pragma once

#include <string>

#include "starling/runtime/profiler.h"
#include "starling/train/ranks/link.h"

namespace starling {

// Collective: what every rank has recorded (Profiler::chrome_trace) on one time line; empty on ranks but the first.
// began: when this rank's profiler was made. Ranks of one host read the same clock; those of other hosts are moved by
// how their clock stood when all had met.
std::string trace_of_all_ranks(RankLink& link, const std::string& own, Profiler::Clock::time_point began);

}  // namespace starling
