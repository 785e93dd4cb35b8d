#pragma once

#include <filesystem>
#include <string>

#include "starling/train/job/job.h"

namespace starling::cli {

// Folder in which a run was trained, from which the relative paths of its job are meant: where `run` lies, without
// train.folder at its end. Empty if that is the current folder, or if it cannot be told, as for an absolute
// train.folder.
std::filesystem::path run_home(const std::filesystem::path& run, const train::Job& job);

// Makes the folder in which a run was trained the current one, and says so, if it is another. `run` stays the same
// folder, by its absolute path then.
void enter_run_home(std::string& run, const train::Job& job);

}  // namespace starling::cli
