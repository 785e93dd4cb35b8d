#include "starling/train/run/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/folder.h"

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

// Process that wrote a temporary file or folder of a run (TemporaryFile, TemporaryFolder); 0: it is none.
pid_t writer_of(const std::string& name) {
  for (const std::string_view whole : {"model", "job.yaml", "summary.json"}) {
    const std::string begin = fmt::format("{}.tmp-", whole);
    pid_t writer = 0;
    if (!name.starts_with(begin)) continue;
    const auto [end, error] = std::from_chars(name.data() + begin.size(), name.data() + name.size(), writer);
    return error == std::errc{} && end != name.data() + name.size() && *end == '-' ? writer : 0;
  }
  return 0;
}

// Removes what killed runs were writing. A process that lives is left alone: a saved model is written after the run.
void remove_leftovers(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> leftovers;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const pid_t writer = writer_of(entry.path().filename().string());
    if (writer > 0 && ::kill(writer, 0) != 0 && errno == ESRCH) leftovers.push_back(entry.path());
  }
  for (const auto& path : leftovers) std::filesystem::remove_all(path, error);
}

}  // namespace

// Locks the folder itself, since a lock file would need room on a disk that may be full.
RunLock::RunLock(const std::filesystem::path& folder) {
  static_cast<void>(make_folders(folder));  // a folder that cannot be made cannot be opened: told below
  folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) return;
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
