#pragma once

#include <vector>

#include "starling/dist/ps/clock.h"
#include "starling/train/monitor/event_writer.h"

namespace starling::train {

// Work of parameter servers between two moments, from their counters then (Run::server_counters; `before` empty: since
// they began), as scalars "servers/<what>": means and largest values of how many updates a push was behind (staleness),
// how many clocks a reader was ahead of the slowest worker (gap) and how many requests waited to be served (queue);
// largest values are those of the whole run. Seconds that reads waited, updates, and megabytes received and sent; where
// gradients are coded, those of their form (coded) and of their values (decoded).
std::vector<Scalar> server_scalars(const dist::ps::Counters& before, const dist::ps::Counters& now);

}  // namespace starling::train
