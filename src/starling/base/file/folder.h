#pragma once

#include <filesystem>

#include "starling/base/result.h"

namespace starling {

// Creates a folder and the parents that are missing, and makes their names durable: without that, a crash could take
// away all that is written into them, however well that is synced.
Result<void> make_folders(const std::filesystem::path& folder);

void remove_folder(const std::filesystem::path& folder);  // recursively; entries that cannot be removed stay

// Folder written beside its final path, and removed on destruction unless published.
class TemporaryFolder {
 public:
  // Creates the folder beside its final path (temporary_name.h), and its parents; a leftover of an earlier process is
  // removed first.
  static Result<TemporaryFolder> create(std::filesystem::path final_path);
  // create() with an explicit temporary path, which must be on the same file system as the final one.
  static Result<TemporaryFolder> create(std::filesystem::path final_path, std::filesystem::path path);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

  // Makes the contents durable and moves the folder to its final path atomically: readers and crashes see the old
  // folder or the new one, never a mixture (or nothing for a moment, on file systems that cannot exchange two names).
  // An existing folder is replaced; anything else at that path is refused.
  Result<void> publish();

 private:
  TemporaryFolder(std::filesystem::path final_path, std::filesystem::path path);

  std::filesystem::path final_path_;
  std::filesystem::path path_;
};

}  // namespace starling
