#pragma once

#include <map>
#include <string>
#include <vector>

#include "starling/dist/strategy/state/sharded_state.h"
#include "starling/train/callback.h"

namespace starling::train {

// Objects whose state goes into a run's checkpoint, beside the JSON that the run adds.
struct RunParts {
  nn::Module& net;
  optim::Optimizer& optimizer;
  std::vector<std::pair<std::string, Tensor>> scaler;  // state of the loss scaler; empty: none
  const std::vector<CallbackPtr>& callbacks;
  const dist::ShardedState* sharded = nullptr;  // tensors of which every rank stores a piece; null: none
};

// Checkpoint of parameters, buffers, optimizer state, random generator key, callback states and tensors, and
// environment facts, added to `extra`. The tensors are the run's own, not copies; those stored in pieces have no
// memory.
Checkpoint run_checkpoint(std::int64_t step, const RunParts& parts, nlohmann::json extra);

// First tensor of that state that holds an infinity or NaN on this rank, by its name in a checkpoint; empty if none
// does.
std::string first_non_finite(const RunParts& parts);

// Restores a checkpoint. Returns a sentence for each environment fact that differs and each callback without saved
// state. Throws, before anything is written, if a tensor is missing or has another type.
std::vector<std::string> restore_run(const Checkpoint& checkpoint, const RunParts& parts);

// Throws if the checkpoint's "identity" differs from this run's, naming the differences.
void check_identity(const std::map<std::string, std::string>& identity, const nlohmann::json& extra);

// Throws if two callbacks of the same name have state.
void check_names(const std::vector<CallbackPtr>& callbacks);

}  // namespace starling::train
