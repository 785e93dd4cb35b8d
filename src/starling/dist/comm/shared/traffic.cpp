#include "starling/dist/comm/call_checks.h"
#include "starling/dist/comm/shared/exchange.h"

namespace starling::dist {

Traffic traffic_of(const Call& call, int rank, int world) {
  const auto size = static_cast<std::uint64_t>(size_of(call.dtype));
  const auto others = static_cast<std::uint64_t>(world - 1);
  const auto bytes = static_cast<std::uint64_t>(call.count) * size;
  if (call.op == CommOp::send) return {.bytes_sent = bytes, .steps = 1, .messages = 1};
  if (call.op == CommOp::recv) return {.bytes_received = bytes, .steps = 1};
  if (others == 0 || call.op == CommOp::barrier || call.op == CommOp::split) return {};
  const auto whole = static_cast<std::uint64_t>(whole_length(call, world)) * size;
  const auto piece = static_cast<std::uint64_t>(piece_length(call, rank)) * size;
  const bool root = call.peer == rank;
  switch (call.op) {
    case CommOp::all_reduce: {
      const auto own = static_cast<std::uint64_t>(call.count * (rank + 1) / world - call.count * rank / world) * size;
      const std::uint64_t moved = others * own + bytes - own;
      return {.bytes_sent = moved, .bytes_received = moved, .steps = 2, .messages = 2 * others};
    }
    case CommOp::sum_shards: {
      // Owners read every shard of their piece. Received bytes are not counted: the others' shard counts are unknown
      // here.
      const auto own = static_cast<std::uint64_t>(call.count * (rank + 1) / world - call.count * rank / world) * size;
      const std::uint64_t sent = static_cast<std::uint64_t>(call.shards) * (bytes - own) + others * own;
      return {.bytes_sent = sent, .steps = 2, .messages = 2 * others};
    }
    case CommOp::reduce_scatter:
      return {.bytes_sent = whole - piece, .bytes_received = others * piece, .steps = 1, .messages = others};
    case CommOp::all_gather:
      return {.bytes_sent = others * piece, .bytes_received = whole - piece, .steps = 1, .messages = others};
    case CommOp::all_to_all:
      return {.bytes_sent = others * bytes, .bytes_received = others * bytes, .steps = 1, .messages = others};
    case CommOp::gather:
      return {.bytes_sent = root ? 0 : piece,
              .bytes_received = root ? whole - piece : 0,
              .steps = 1,
              .messages = root ? 0u : 1u};
    case CommOp::scatter:
      return {.bytes_sent = root ? whole - piece : 0,
              .bytes_received = root ? 0 : piece,
              .steps = 1,
              .messages = root ? others : 0};
    case CommOp::broadcast:
      return {.bytes_sent = root ? others * bytes : 0,
              .bytes_received = root ? 0 : bytes,
              .steps = 1,
              .messages = root ? others : 0};
    default: return {};
  }
}

}  // namespace starling::dist
