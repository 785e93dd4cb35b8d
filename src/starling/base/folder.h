#pragma once

#include <filesystem>

#include "starling/base/result.h"

namespace starling {

void remove_folder(const std::filesystem::path& folder);  // with all in it; what cannot be removed stays

// A folder written beside the place it is meant for, and removed again unless it was published.
class TemporaryFolder {
 public:
  // Makes it, and what leads to it: <final_path>.tmp-<process>-<serial>; what an earlier process left there goes.
  static Result<TemporaryFolder> create(std::filesystem::path final_path);
  // The same at a place of its own on the file system of the final one.
  static Result<TemporaryFolder> create(std::filesystem::path final_path, std::filesystem::path path);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

  // Makes the names in it durable and puts it in its place as a whole: readers and crashes see what was there or the
  // new folder, never a mixture (or nothing for a moment, on file systems that cannot exchange two names). A folder
  // that is there already is replaced, anything else refused.
  Result<void> publish();

 private:
  TemporaryFolder(std::filesystem::path final_path, std::filesystem::path path);

  std::filesystem::path final_path_;
  std::filesystem::path path_;
};

}  // namespace starling
