#pragma once

#include <span>
#include <string>

#include "starling/dist/comm/algorithms/algorithms.h"

namespace starling {

// What a message costs between two ranks, in seconds: measured (transport/measure_links.h) or given.
struct LinkCosts {
  double latency = 20e-6;      // of a round with one message
  double overhead = 2e-6;      // of each further message of a rank in the same round
  double per_byte = 1e-9;      // of the busier direction
  double reduce_byte = 1e-10;  // of combining or copying a byte here
};

struct CostModel {
  LinkCosts far;                    // between hosts, or between any two ranks when hosts are not known
  LinkCosts near;                   // inside a host
  std::span<const int> hosts = {};  // of each rank; empty: not known. Ranks of a host share its way out.
  bool chain = false;               // a message passes every link between the two ranks, one after another
};

// The seconds of one collective, ranks going from round to round together: the sum over rounds of the slowest rank's
// latency, bytes and reduction.
double predict(const Algorithm& algorithm, ScheduleRequest request, const CostModel& model);

}  // namespace starling
