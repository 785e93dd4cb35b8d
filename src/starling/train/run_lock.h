#pragma once

#include <filesystem>

namespace starling {

// The folder of a run, held against other processes and other runs of this one; let go when the process ends, however
// it does.
class RunLock {
 public:
  // Makes the folder. Throws when it stays held by another for a second, which a process that was just killed may need
  // to be gone. Where the folder cannot be made or its file system knows no locks, nothing is held.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int folder_ = -1;
};

}  // namespace starling
