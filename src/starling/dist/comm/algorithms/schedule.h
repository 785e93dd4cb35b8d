#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "starling/dist/comm/call.h"
#include "starling/dist/comm/journal.h"

namespace starling::dist {

// Schedule of a collective for one rank, as plain data: rounds of transfers with other ranks, each followed by local
// work. Data sent in round k is received in the peer's round k, so that bytes and steps can be counted and a whole
// world can be simulated in a loop. All ranks of a collective have the same number of rounds; a rank may be idle in
// some.

enum class ScheduleBuffer : std::uint8_t { send, recv, scratch };

// Bytes of one of the operation's buffers.
struct Block {
  ScheduleBuffer buffer = ScheduleBuffer::recv;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

struct ScheduledTransfer {
  bool sends = false;
  int peer = 0;
  Block block;
};

// to = from[0] . from[1] . ... in that order, by the call's reduction; a single source is copied. `to` may be one of
// the sources. completes: all ranks' values are included now, so that a mean divides by the world size.
struct LocalWork {
  Block to;
  std::vector<Block> from;
  bool completes = false;
};

struct Round {
  std::vector<ScheduledTransfer> transfers;
  std::vector<LocalWork> then;
};

struct Schedule {
  std::vector<LocalWork> first;  // before anything is sent
  std::vector<Round> rounds;
  std::int64_t scratch_bytes = 0;
};

// Parameters of a schedule. Counts are those of the Call: elements, per rank for ops in pieces.
struct ScheduleRequest {
  CommOp op = CommOp::barrier;
  int rank = 0;
  int size = 1;
  std::int64_t count = 0;
  std::span<const std::int64_t> counts = {};  // per rank, where sizes differ
  std::int64_t element_bytes = 1;
  int root = 0;
  std::int64_t segment_bytes = 256 * 1024;  // for pipelined algorithms
  std::span<const int> hosts = {};          // by rank; empty: unknown
};

// Exact traffic of a schedule: bytes and messages of this rank, and steps = rounds.
Traffic traffic_of(const Schedule& schedule);

}  // namespace starling::dist
