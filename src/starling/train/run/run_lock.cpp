#include "starling/train/run/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/file/folder.h"
#include "starling/base/file/temporary_name.h"

namespace starling::train {
namespace {

constexpr int kTries = 10;
constexpr std::chrono::milliseconds kBetween(100);

// True if another holder has the lock. A file system without locks is used without.
bool held(int folder, const std::filesystem::path& name) {
  int error = EINTR;
  while (error == EINTR) error = ::flock(folder, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  if (error == 0 || error == EWOULDBLOCK) return error != 0;
  if (error == EINVAL || error == ENOSYS || error == EOPNOTSUPP) return false;
  ::close(folder);
  fail("[train] expected to lock the folder {}, got: {} (choose another train.folder if it stays so)", name.string(),
       std::generic_category().message(error));
}

Writer writer_in_run(const std::string& name) {
  for (const std::string_view whole : {"model", "job.yaml", "summary.json"}) {
    if (const Writer writer = writer_of(name, whole); writer != Writer::nobody) return writer;
  }
  return Writer::nobody;
}

// True if nothing in it has been written for a day.
bool is_old(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto before = fs::file_time_type::clock::now() - std::chrono::hours(24);
  const auto older = [&](const fs::path& one) { return fs::last_write_time(one, error) < before && !error; };
  if (!older(path)) return false;
  if (!fs::is_directory(path, error)) return true;
  for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
    if (!older(entry.path())) return false;
  }
  return !error;
}

// Removes what killed runs were writing. A process that lives is left alone: a saved model is written after the run.
// One on another host, which shares the disk, is taken for dead when it has written nothing for long.
void remove_leftovers(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> leftovers;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const Writer writer = writer_in_run(entry.path().filename().string());
    if (writer == Writer::dead || (writer == Writer::elsewhere && is_old(entry.path())))
      leftovers.push_back(entry.path());
  }
  for (const auto& path : leftovers) std::filesystem::remove_all(path, error);
}

}  // namespace

// Locks the folder itself, since a lock file would need room on a disk that may be full.
RunLock::RunLock(const std::filesystem::path& folder) {
  static_cast<void>(make_folders(folder));  // a folder that cannot be made cannot be opened: told below
  folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (const int error = errno; folder_ < 0) {
    if (error == ENOENT || error == ENOTDIR) return;
    fail("[train] expected to open the folder {} to lock it, got: {}", folder.string(),
         std::generic_category().message(error));
  }
  for (int tried = 1; held(folder_, folder); ++tried) {
    if (tried == kTries) {
      ::close(folder_);
      fail(
          "[train] expected a folder that no other run is using, got {}, in which one trains at this moment (wait for "
          "it, or choose another train.folder)",
          folder.string());
    }
    std::this_thread::sleep_for(kBetween);
  }
  remove_leftovers(folder);
}

bool RunLock::held_by_other(const std::filesystem::path& folder) {
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return false;
  const bool refused = ::flock(opened, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(opened);
  return refused;
}

RunLock::~RunLock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace starling::train
