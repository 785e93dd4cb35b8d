#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "starling/dist/comm/call.h"
#include "starling/dist/comm/journal.h"

namespace starling {

// A collective as one rank runs it, as plain data: rounds of transfers with other ranks, each followed by local work.
// What a transfer of round k sends, its peer receives in its own round k, so that bytes and steps can be counted and a
// whole world can be run in a loop. All ranks of a collective have the same number of rounds; a rank may be idle in
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

// to = from[0] . from[1] . ... in that order, by the call's reduction; of a single one: its copy. `to` may be one of
// them. completes: all ranks' values are in it now, so that a mean divides by the world.
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

// What a schedule is made for. Counts are those of the Call: elements, per rank for ops in pieces.
struct ScheduleRequest {
  CommOp op = CommOp::barrier;
  int rank = 0;
  int size = 1;
  std::int64_t count = 0;
  std::span<const std::int64_t> counts = {};  // per rank, when they differ
  std::int64_t element_bytes = 1;
  int root = 0;
  std::int64_t segment_bytes = 256 * 1024;  // of pipelined algorithms
  std::span<const int> hosts = {};          // of each rank; empty: unknown
};

// Exactly what running it moves: bytes and messages of this rank, and steps = rounds.
Traffic traffic_of(const Schedule& schedule);

}  // namespace starling
