#pragma once

#include <filesystem>
#include <string>

#include "starling/nn/module.h"
#include "starling/train/checkpoint/checkpoint.h"

namespace starling {

// The checkpoint of a run: "latest" (the newest sound one), "best" (kept by train.best) or the number of a step.
Result<Checkpoint> load_run_checkpoint(const std::filesystem::path& run, const std::string& which = "latest");

// Copies parameters and buffers from a checkpoint into a network. Throws naming the first that is missing or of another
// type, before anything is written.
void load_weights(nn::Module& net, const Checkpoint& checkpoint);

}  // namespace starling
