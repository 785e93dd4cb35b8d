#pragma once

#include <vector>

#include "starling/dist/comm/algorithms/cost.h"
#include "starling/dist/comm/transport/transport.h"

namespace starling::dist {

struct MeasuredLinks {
  LinkCosts far, near;
};

// Measures link costs with small messages, bursts of small ones, and large ones, each rank sending to the next while
// receiving from the one before, so that all links work at once. hosts: of each rank, to separate links inside and
// between hosts; empty: all links are alike, and near equals far. Collective, a few milliseconds. Results differ from
// rank to rank; zero latency if a rank had no such link to measure.
MeasuredLinks measure_links(Transport& transport, const std::vector<int>& hosts, CommTime deadline);

// Sends bytes to one rank while receiving as many from another; blocks until both have ended. Throws Error at the
// deadline.
void exchange(Transport& transport, int to, const void* out, int from, void* in, std::size_t bytes,
              std::uint32_t channel, CommTime deadline);

// Waits for started transfers.
void finish(Transport& transport, std::vector<Transport::Transfer> transfers, std::string_view what, CommTime deadline);

}  // namespace starling::dist
