#include "starling/train/run/run_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

#include "starling/base/file/file.h"

namespace starling::train {

namespace fs = std::filesystem;

namespace {

// Permissions do not tell all: nothing can be made below /proc, on a full or a read-only disk, whatever they say. So
// one folder is made and taken away again. Empty: it could be made.
std::string making_obstacle(const fs::path& in) {
  std::string name = (in / ".starling-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return fmt::format("nothing can be made in {}: {}", in.string(), errno_text());
  ::rmdir(name.c_str());
  return "";
}

}  // namespace

std::string folder_obstacle(const fs::path& folder) {
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (!error && !fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (error) return error.message();
  if (!fs::is_directory(there, error)) return fmt::format("{} is no folder", there.string());
  if (::access(there.c_str(), W_OK | X_OK) != 0) return fmt::format("{}: {}", there.string(), errno_text());
  return making_obstacle(there);
}

std::string folder_refusal(const fs::path& folder, const std::string& obstacle) {
  return fmt::format(
      "[train] expected to make the folder {} and write in it, got: {} (choose another, as by --set "
      "train.folder=runs/other)",
      folder.string(), obstacle);
}

}  // namespace starling::train
