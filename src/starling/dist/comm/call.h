#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "starling/ops/def/sharding/sharding.h"
#include "starling/tensor/dtype.h"

namespace starling {

// Operations of a communicator, as plain data that backends execute and decorators inspect.
enum class CommOp : std::uint8_t {
  broadcast,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  gather,
  scatter,
  sum_shards,
  barrier,
  split,
  send,
  recv
};
inline constexpr int kCommOpCount = 12;

// A reducing collective combines elements by a ReduceOp (ops/def/sharding/sharding.h): in rank order where the backend
// is rank_ordered, else in a fixed order of the backend's own. mean is for floating point only; booleans take max (or)
// and min (and) only. f16 and bf16 accumulate in f32; integers wrap; NaN wins over any number in max and min.

std::string_view name(CommOp op);
constexpr bool is_point_to_point(CommOp op) { return op == CommOp::send || op == CommOp::recv; }
constexpr bool has_root(CommOp op) { return op == CommOp::broadcast || op == CommOp::gather || op == CommOp::scatter; }

using CommClock = std::chrono::steady_clock;
using CommTime = CommClock::time_point;

// Deadline of calls that supervision alone ends (health/failure_detector.h).
inline constexpr std::chrono::milliseconds kNoDeadline = std::chrono::hours(24 * 365);

struct CallOptions {
  std::string_view name = {};             // for diagnostics; part of the fingerprint, so equal on all ranks
  std::chrono::milliseconds deadline{0};  // time from the call to its end; 0: the communicator's default
};

// One operation as submitted by one rank. Spans and views live as long as the call; buffers until its Work has ended.
struct Call {
  CommOp op = CommOp::barrier;
  DType dtype = DType::u8;
  ReduceOp reduce = ReduceOp::sum;
  int peer = -1;                              // root of a broadcast, gather or scatter; partner of a send or recv
  std::int64_t count = 0;                     // elements of a buffer; per rank for gather, scatter and all_to_all
  std::span<const std::int64_t> counts = {};  // per rank, where sizes differ; count is then their sum
  std::int64_t shards = 1;                    // sum_shards: vectors this rank holds
  std::int64_t color = 0, key = 0;            // split
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t sequence = 0;  // from 1; counts collectives of the group, or messages of an ordered pair
  std::string_view name = {};
  CommTime deadline = {};
};

// Identifies a submitted operation to the communicator that started it.
struct Ticket {
  CommOp op = CommOp::barrier;
  int peer = -1;
  std::uint64_t sequence = 0;
  std::uint64_t cookie = 0;  // for decorators: own number of the operation
};

}  // namespace starling
