#pragma once

#include <vector>

#include "starling/dist/strategy/state/sharded_state.h"
#include "starling/train/checkpoint/checkpoint.h"

namespace starling::train {

// Copies tensors of a checkpoint into those of the same names. Throws "[who] expected …", before anything is written,
// naming the first tensor that is missing or has another type. Of those that are `sharded` this rank takes its piece.
// Bytes come by Checkpoint::fetch where there is one, which is asked for the tensors in the order of `to`.
void copy_tensors(const Checkpoint& from, const std::vector<NamedTensor>& to, const char* who,
                  const dist::ShardedState* sharded = nullptr);

// Brings the bytes of a saved tensor into one of its type, or into the piece of it that this rank stores.
void fetch_into(const Checkpoint& from, const NamedTensor& saved, const Tensor& to,
                const dist::ShardedState* sharded = nullptr);

}  // namespace starling::train
