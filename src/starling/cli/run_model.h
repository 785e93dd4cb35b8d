#pragma once

#include <filesystem>

#include "starling/train/saved_model/saved_model.h"

namespace starling::cli {

// True for the folder of a run with a checkpoint.
bool has_checkpoints(const std::filesystem::path& run);

// Model made of the newest checkpoint of a run, which has none of its own before it has ended. Reads the job's data,
// for class names and sizes, and says on standard error which step it is. Nothing is written into the run.
SavedModel model_of_checkpoint(const std::filesystem::path& run, int threads);

}  // namespace starling::cli
