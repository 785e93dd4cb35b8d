#pragma once

#include <filesystem>
#include <string>

namespace starling::train {

// Reason why a folder cannot be made or written in; empty if it can. Leaves nothing behind: what is made to try it goes
// again.
std::string folder_obstacle(const std::filesystem::path& folder);

// Message for a run that cannot have the folder.
std::string folder_refusal(const std::filesystem::path& folder, const std::string& obstacle);

}  // namespace starling::train
