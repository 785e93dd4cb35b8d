#pragma once

#include <map>
#include <string>
#include <vector>

#include "starling/train/callback.h"

namespace starling {

// What a checkpoint of a run holds beside the JSON that the run itself keeps.
struct RunParts {
  nn::Module& net;
  optim::Optimizer& optimizer;
  std::vector<std::pair<std::string, Tensor>> scaler;  // of losses; empty: there is none
  const std::vector<CallbackPtr>& callbacks;
};

// Parameters, buffers, optimizer state, the key of the random generator, state and tensors of callbacks, and the facts
// of the machine, added to `extra`. The tensors are those of the run.
Checkpoint run_checkpoint(std::int64_t step, const RunParts& parts, nlohmann::json extra);

// Puts one back. Gives a sentence for each fact of the machine that differs and each callback that has no state in it.
// Throws when it lacks a tensor of the run or has another type of it, before anything is written.
std::vector<std::string> restore_run(const Checkpoint& checkpoint, const RunParts& parts);

// Throws naming what differs between "identity" of a checkpoint and this run's.
void check_identity(const std::map<std::string, std::string>& identity, const nlohmann::json& extra);

// Throws when two callbacks of one name have state.
void check_names(const std::vector<CallbackPtr>& callbacks);

}  // namespace starling
