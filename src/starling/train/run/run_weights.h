#pragma once

#include <filesystem>
#include <string>

#include "starling/nn/module.h"
#include "starling/train/checkpoint/checkpoint.h"

namespace starling::train {

// Loads a checkpoint of a run: "latest" (the newest), "best" (kept by train.best) or a step number. Fails if that one
// is damaged, naming what could be taken instead; an older one is never taken silently.
Result<Checkpoint> load_run_checkpoint(const std::filesystem::path& run, const std::string& which = "latest");

// Copies parameters and buffers from a checkpoint into a network. Throws, before anything is written, naming the first
// that is missing or has another type.
void load_weights(nn::Module& net, const Checkpoint& checkpoint);

}  // namespace starling::train
