#include "starling/ops/def/reduce_op.h"

namespace starling {
namespace {

constexpr std::string_view kNames[kReduceOpCount] = {"sum", "mean", "max", "min", "product"};

}  // namespace

std::string_view name(ReduceOp op) { return kNames[static_cast<int>(op)]; }

std::optional<ReduceOp> parse_reduce_op(std::string_view name) {
  for (int i = 0; i < kReduceOpCount; ++i) {
    if (kNames[i] == name) return static_cast<ReduceOp>(i);
  }
  return std::nullopt;
}

}  // namespace starling
