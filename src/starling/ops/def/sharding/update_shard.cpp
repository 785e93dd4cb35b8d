#include "starling/ops/def/sharding/update_shard.h"

#include "starling/ops/def/rules.h"

namespace starling::op {
namespace {

// Layout of the first target of tensor `i` that is split; replicated if none is.
Layout layout_of(const ShardCall& call, const UpdateOperands& operands, std::size_t i, std::size_t n) {
  for (std::size_t target = 0; target < operands.targets; ++target) {
    const Layout& layout = call.layouts[target * n + i];
    if (layout.is_split()) return layout;
  }
  return Layout::replicate();
}

}  // namespace

ShardRule shard_update(const ShardCall& call, const UpdateOperands& operands) {
  ShardRule rule = rules::shard_replicated(call);
  const std::size_t n = operands.tensors(call.in.size());
  for (std::size_t i = 0; i < n; ++i) {
    const Layout layout = layout_of(call, operands, i, n);
    for (std::size_t target = 0; target < operands.targets; ++target)
      rule.in[target * n + i] = rule.out[target * n + i] = layout;
    rule.in[operands.targets * n + i] = layout;
  }
  return rule;
}

}  // namespace starling::op
