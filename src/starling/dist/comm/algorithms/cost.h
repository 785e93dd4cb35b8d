#pragma once

#include <span>
#include <string>

#include "starling/dist/comm/algorithms/algorithms.h"

namespace starling::dist {

// Costs of messages between two ranks, in seconds: measured (transport/measure_links.h) or given.
struct LinkCosts {
  double latency = 20e-6;      // per round with one message
  double overhead = 2e-6;      // per further message of a rank in the same round
  double per_byte = 1e-9;      // per byte of the busier direction
  double reduce_byte = 1e-10;  // per byte combined or copied locally
};

struct CostModel {
  LinkCosts far;                    // between hosts, or between any two ranks if hosts are unknown
  LinkCosts near;                   // inside a host
  std::span<const int> hosts = {};  // by rank; empty: unknown. Ranks of a host share its uplink.
  bool chain = false;               // a message passes every link between the two ranks, one after another
};

// Predicted seconds of one collective, with ranks in lockstep: the sum over rounds of the slowest rank's latency, bytes
// and reduction.
double predict(const Algorithm& algorithm, ScheduleRequest request, const CostModel& model);

}  // namespace starling::dist
