#include "starling/train/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "starling/base/error.h"

namespace starling::train {
namespace {

constexpr int kTries = 10;
constexpr std::chrono::milliseconds kBetween(100);

// True if another holder has the lock.
bool held(int folder) { return ::flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

}  // namespace

// Locks the folder itself, since a lock file would need room on a disk that may be full.
RunLock::RunLock(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) return;
  for (int tried = 1; held(folder_); ++tried) {
    if (tried == kTries) {
      ::close(folder_);
      fail(
          "[train] expected a folder that no other run is using, got {}, in which one trains at this moment (wait for "
          "it, or choose another train.folder)",
          folder.string());
    }
    std::this_thread::sleep_for(kBetween);
  }
}

RunLock::~RunLock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace starling::train
