#include "starling/base/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "starling/base/file.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

void remove_folder(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Without a slash at the end, which would make the name of the last part empty.
fs::path plain(fs::path path) {
  path = path.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

TemporaryFolder::TemporaryFolder(fs::path final_path, fs::path path)
    : final_path_(std::move(final_path)), path_(std::move(path)) {}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : final_path_(std::move(other.final_path_)), path_(std::move(other.path_)) {
  other.path_.clear();
}

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty()) remove_folder(path_);
}

Result<TemporaryFolder> TemporaryFolder::create(fs::path final_path) {
  final_path = plain(std::move(final_path));
  std::error_code error;
  const auto there = fs::symlink_status(final_path, error).type();
  if (there != fs::file_type::not_found && there != fs::file_type::directory)
    return failure("[folder] expected a folder or nothing at {}, got something else", final_path.string());
  static std::atomic<unsigned> serial{0};  // two threads may write the same folder: the last to publish wins
  fs::path path = final_path.string() + fmt::format(".tmp-{}-{}", ::getpid(), serial++);
  remove_folder(path);
  fs::create_directories(path, error);
  if (error) return failure("[folder] expected to create {}, got: {}", path.string(), error.message());
  return TemporaryFolder(std::move(final_path), std::move(path));
}

Result<void> TemporaryFolder::publish() {
  if (auto synced = sync_folder(path_); !synced) return synced;
  if (::rename(path_.c_str(), final_path_.c_str()) == 0) {
    path_.clear();
    return sync_folder(parent_of(final_path_));
  }
  // The two change places in one step; the old one goes with this object.
  if ((errno != ENOTEMPTY && errno != EEXIST) ||
      ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_path_.c_str(), RENAME_EXCHANGE) != 0) {
    return failure("[folder] expected to rename {} to {}, got: {}", path_.string(), final_path_.string(), errno_text());
  }
  return sync_folder(parent_of(final_path_));
}

}  // namespace starling
