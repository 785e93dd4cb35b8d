#pragma once

#include <filesystem>
#include <optional>

#include "starling/data/source.h"
#include "starling/train/job/job.h"
#include "starling/train/saved_model/saved_model.h"

namespace starling::cli {

// The model of a run in its newest state: the saved one, or one made of the newest checkpoint, which is told on
// standard error, where there is none yet or the run has been trained on since. A checkpoint needs the job's data, for
// class names and sizes; nothing is written into the run. nullopt: the folder has neither.
std::optional<SavedModel> model_of_run(const std::filesystem::path& run, int threads);

// Columns, words, means and vocabulary with which a run was trained: those in its saved model, else made anew from the
// job's files.
data::Reading reading_of_run(const std::filesystem::path& run, const train::Job& job);
data::Reading reading_of(const ModelSignature& signature);

}  // namespace starling::cli
