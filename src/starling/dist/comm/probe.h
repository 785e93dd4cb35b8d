#pragma once

#include <cstdint>
#include <vector>

#include "starling/dist/comm/comm.h"

namespace starling::dist {

struct ProbeOptions {
  std::vector<std::int64_t> pair_bytes = {1 << 20, 16 << 20};  // message sizes for bandwidth
  std::vector<std::int64_t> reduce_bytes = {4, 4096, 64 << 10, 1 << 20, 16 << 20};
  int most_pairs = 28;  // with more pairs, only neighbours are measured
};

// Measurements between two ranks, in seconds for one way.
struct PairProbe {
  int first = 0, second = 0;
  double latency = 0;              // one way, of 4 bytes
  std::vector<double> transfer{};  // by pair_bytes
};

struct ReduceProbe {
  std::int64_t bytes = 0;
  double seconds = 0;  // one all_reduce (f32, sum), on the slowest rank
};

struct CommProbe {
  std::vector<PairProbe> pairs;
  std::vector<ReduceProbe> reduces;
};

// Measures ping-pong messages between pairs of ranks, one pair after another, then all-reduces over all ranks; medians.
// Collective; every rank gets the same figures. Takes a second or so for a few ranks.
CommProbe probe(Comm& comm, const ProbeOptions& options = {});

}  // namespace starling::dist
