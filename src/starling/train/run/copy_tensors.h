#pragma once

#include <vector>

#include "starling/dist/strategy/sharded_state.h"
#include "starling/train/checkpoint/checkpoint.h"

namespace starling::train {

// Copies tensors of a checkpoint into those of the same names. Throws "[who] expected …", before anything is written,
// naming the first tensor that is missing or has another type. Of those that are `sharded` this rank takes its piece.
void copy_tensors(const Checkpoint& from, const std::vector<NamedTensor>& to, const char* who,
                  const dist::ShardedState* sharded = nullptr);

}  // namespace starling::train
