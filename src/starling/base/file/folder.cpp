#include "starling/base/file/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "starling/base/file/file.h"
#include "starling/base/file/temporary_name.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Path without a trailing slash, which would make filename() empty.
fs::path plain(fs::path path) {
  path = path.lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

// Renames `from` to `to`. An existing `to` is exchanged in one step or, on file systems that cannot do that, renamed
// away first.
bool move_into_place(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return true;
  if (errno != ENOTEMPTY && errno != EEXIST) return false;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return true;
  const fs::path aside = from.string() + ".old";
  if (::rename(to.c_str(), aside.c_str()) != 0) return false;
  const bool moved = ::rename(from.c_str(), to.c_str()) == 0;
  const int reason = errno;
  if (moved) {
    remove_folder(aside);
  } else {
    ::rename(aside.c_str(), to.c_str());
  }
  errno = reason;
  return moved;
}

}  // namespace

Result<void> make_folders(const fs::path& folder) {
  const fs::path path = plain(folder);
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return {};
  const fs::path parent = parent_of(path);
  if (auto made = parent == path ? Result<void>() : make_folders(parent); !made) return made;
  const int wrong = ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
  if (wrong == EEXIST && fs::is_directory(path, error)) return {};  // another process has just made it
  if (wrong != 0)
    return failure("[folder] expected to create {}, got: {}", path.string(), std::generic_category().message(wrong));
  return sync_folder(parent);
}

void remove_folder(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

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
  fs::path path = final_path.string() + temporary_suffix();  // writers of one folder stay apart; the last one wins
  return create(std::move(final_path), std::move(path));
}

Result<TemporaryFolder> TemporaryFolder::create(fs::path final_path, fs::path path) {
  std::error_code error;
  const auto there = fs::symlink_status(final_path, error).type();
  if (there != fs::file_type::not_found && there != fs::file_type::directory)
    return failure("[folder] expected a folder or nothing at {}, got something else", final_path.string());
  remove_folder(path);
  if (auto made = make_folders(parent_of(path)); !made) return made.failure();
  if (::mkdir(path.c_str(), 0777) != 0)
    return failure("[folder] expected to create {}, got: {}", path.string(), errno_text());
  return TemporaryFolder(std::move(final_path), std::move(path));
}

// After publishing, the replaced folder is at path() and is removed with this object.
Result<void> TemporaryFolder::publish() {
  if (auto synced = sync_folder(path_); !synced) return synced;
  if (!move_into_place(path_, final_path_)) {
    return failure("[folder] expected to rename {} to {}, got: {}", path_.string(), final_path_.string(), errno_text());
  }
  return sync_folder(parent_of(final_path_));
}

}  // namespace starling
