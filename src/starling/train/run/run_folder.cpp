#include "starling/train/run/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <system_error>

#include "starling/base/file.h"

namespace starling::train {

namespace fs = std::filesystem;

std::string folder_obstacle(const fs::path& folder) {
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!error && !fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (error) return error.message();
  if (!fs::is_directory(there, error)) return fmt::format("{} is no folder", there.string());
  if (::access(there.c_str(), W_OK | X_OK) != 0) return fmt::format("{}: {}", there.string(), errno_text());
  return "";
}

std::string folder_refusal(const fs::path& folder, const std::string& obstacle) {
  return fmt::format(
      "[train] expected to make the folder {} and write in it, got: {} (choose another, as by --set "
      "train.folder=runs/other)",
      folder.string(), obstacle);
}

}  // namespace starling::train
