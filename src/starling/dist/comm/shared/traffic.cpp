#include "starling/dist/comm/shared/exchange.h"

namespace starling::dist {

Traffic steps_of(const Call& call, int rank, int world) {
  const auto others = static_cast<std::uint64_t>(world - 1);
  const bool root = call.peer == rank;
  switch (call.op) {
    case CommOp::send: return {.steps = 1, .messages = 1};
    case CommOp::recv: return {.steps = 1};
    case CommOp::barrier:
    case CommOp::split: return {};
    default: break;
  }
  if (others == 0) return {};
  switch (call.op) {
    case CommOp::all_reduce:
    case CommOp::sum_shards: return {.steps = 2, .messages = 2 * others};
    case CommOp::gather: return {.steps = 1, .messages = root ? 0u : 1u};
    case CommOp::scatter:
    case CommOp::broadcast: return {.steps = 1, .messages = root ? others : 0};
    default: return {.steps = 1, .messages = others};
  }
}

}  // namespace starling::dist
