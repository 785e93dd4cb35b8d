#pragma once

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// Rules that say kNorms = true take norms of whole tensors, and update whole tensors only.
template <class A>
constexpr bool kTakesNorms = requires {
  A::kNorms;
};

// Sharding of updates that treat every element by itself. A tensor whose weight or states are split is updated in
// pieces: weight, states and gradient are all split that way, and so are the results. The layout of the gradient alone
// decides nothing.
ShardRule shard_update(const ShardCall& call, const UpdateOperands& operands);

}  // namespace starling::op
