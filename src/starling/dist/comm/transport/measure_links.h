#pragma once

#include <vector>

#include "starling/dist/comm/algorithms/cost.h"
#include "starling/dist/comm/transport/transport.h"

namespace starling {

struct MeasuredLinks {
  LinkCosts far, near;
};

// Measures what messages cost here: small ones, several small ones at once, large ones, each to the next rank while the
// one before sends, so that all links work at once. hosts: of each rank, so that links inside and between hosts are
// told apart; empty: all are alike, and near equals far. Collective, a few milliseconds. Results differ from rank to
// rank; zero latency where a rank had no such link to measure.
MeasuredLinks measure_links(Transport& transport, const std::vector<int>& hosts, CommTime deadline);

// Sends bytes to one rank while receiving as many from another; blocks until both have ended. Throws Error at the
// deadline.
void exchange(Transport& transport, int to, const void* out, int from, void* in, std::size_t bytes,
              std::uint32_t channel, CommTime deadline);

// Waits for started transfers.
void finish(Transport& transport, std::vector<Transport::Transfer> transfers, std::string_view what, CommTime deadline);

}  // namespace starling
