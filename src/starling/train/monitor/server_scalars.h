#pragma once

#include <map>
#include <string>
#include <vector>

#include "starling/dist/ps/clock.h"
#include "starling/train/monitor/event_writer.h"

namespace starling::train {

// Work of parameter servers between two moments, from their counters then (Run::server_counters; `before` empty: since
// they began), as scalars "servers/<what>": means and largest values of how many updates a push was behind (staleness),
// how many clocks a reader was ahead of the slowest worker (gap) and how many requests waited to be served (queue);
// largest values are those of the whole run. Seconds that reads waited, updates, and megabytes received and sent; where
// gradients are coded, those of their form (coded) and of their values (decoded). The queue of each server is told as
// "servers/queue_of/<server>"; coded gradients of each weight as traffic_scalars() does.
std::vector<Scalar> server_scalars(const dist::ps::Counters& before, const dist::ps::Counters& now);

// Coded gradients between two moments, from the counters decoded_bytes, coded_bytes and codec_error of each weight, as
// scalars "codec/<weight>/<what>": megabytes before and after coding, and the compression error (the norm of what is
// kept as a share of the gradient's) as it was last seen.
std::vector<Scalar> traffic_scalars(const dist::ps::Counters& before, const dist::ps::Counters& now);

// Forms that codec: auto has chosen, by weight: "dense", "bf16", "one_bit", "factors".
std::map<std::string, std::string> chosen_forms(const dist::ps::Counters& counters);

}  // namespace starling::train
